#include "device/undo_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/buffer.h"
#include "base/crc32c.h"
#include "base/endian.h"

namespace lazyfs::device {
namespace {

constexpr std::uint32_t kMagic = 0x4E555A4C;  // "LZUN"
constexpr std::size_t kHeaderBytes = 32, kMaxRangeBytes = std::size_t{1} << 20;
constexpr std::uint64_t kBlocksARange = kMaxRangeBytes / kBlockBytes;

enum Kind : std::uint32_t { kStart = 1, kBytes = 2, kZeros = 3, kState = 4, kEnd = 5 };
using Header = std::array<std::byte, kHeaderBytes>;

bool is_zero(Piece bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

std::uint32_t record_crc(const Header& header, Piece bytes) {
  return crc32c(bytes, crc32c(std::span(header).subspan(8)));
}

// Makes the file's name durable, so that the file exists after a crash.
Result<> sync_folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return fail(Errc::kDeviceAccess);
  const bool is_synced = ::fsync(fd) == 0;
  ::close(fd);
  return is_synced ? ok() : Result<>(fail(Errc::kDeviceFlush));
}

}  // namespace

// ---- Keeping ------------------------------------------------------------------------------------

Result<std::unique_ptr<UndoFile>> UndoFile::make(const std::string& path) {
  ASSIGN_OR_RETURN(Backing file, Backing::make(path));
  TRY(sync_folder_of(path));
  return std::make_unique<UndoFile>(std::move(file));
}

Result<> UndoFile::add(std::uint32_t kind, Range range, std::uint32_t contents, Piece bytes) {
  Header header{};
  const std::span<std::byte> to = header;
  store_le_at(to, 0, kMagic);
  store_le_at(to, 8, kind);
  store_le_at(to, 12, range.length);
  store_le_at(to, 16, range.offset);
  store_le_at(to, 24, contents);
  store_le_at(to, 4, record_crc(header, bytes));
  is_synced_ = false;
  const std::array<Piece, 2> pieces{Piece(header), bytes};
  TRY(file_.write(file_bytes_, pieces).result);
  file_bytes_ += kHeaderBytes + bytes.size();
  return ok();
}

// A failed sync is not repeated: the kernel may have dropped data that it could not write.
Result<> UndoFile::sync() {
  if (!is_synced_ && !has_failed_) has_failed_ = !file_.sync();
  if (has_failed_) return fail(Errc::kDeviceFlush);
  is_synced_ = true;
  return ok();
}

Result<> UndoFile::start(const Backing& device) {
  ASSIGN_OR_RETURN(const std::uint64_t device_bytes, device.size_bytes());
  return add(kStart, {device_bytes, 0}, 0, {});
}

// If the device is a file whose size is no multiple of a block, its last block is shorter.
Result<> UndoFile::keep_run(const Backing& device, std::uint64_t block, std::uint64_t end) {
  AlignedBuffer old((end - block) * kBlockBytes);
  ASSIGN_OR_RETURN(const std::size_t got, device.read_some(block * kBlockBytes, old.span()));
  const Piece bytes = old.span().first(got);
  if (!bytes.empty()) {
    const Range range{block * kBlockBytes, static_cast<std::uint32_t>(got)};
    const bool has_bytes = !is_zero(bytes);
    TRY(add(has_bytes ? kBytes : kZeros, range, 0, has_bytes ? bytes : Piece{}));
    ranges_.push_back(range);
  }
  for (std::uint64_t i = block; i < end; ++i) kept_.insert(i);
  return ok();
}

Result<> UndoFile::keep(const Backing& device, std::uint64_t at, std::uint64_t length_bytes) {
  MutexLock lock(mu_);
  if (file_bytes_ == 0) TRY(start(device));
  const std::uint64_t end = blocks_for(at + length_bytes);
  for (std::uint64_t block = at / kBlockBytes; block < end;) {
    std::uint64_t run_end = block;
    while (run_end < end && run_end - block < kBlocksARange && !kept_.contains(run_end)) ++run_end;
    if (run_end > block) TRY(keep_run(device, block, run_end));
    block = std::max(run_end, block + 1);
  }
  return sync();
}

Result<> UndoFile::finish(const Backing& device) {
  MutexLock lock(mu_);
  if (file_bytes_ == 0) TRY(start(device));
  AlignedBuffer now(kMaxRangeBytes);
  for (const Range& range : ranges_) {
    const auto to = now.span().first(blocks_for(range.length) * kBlockBytes);
    ASSIGN_OR_RETURN(const std::size_t got, device.read_some(range.offset, to));
    if (got < range.length) return fail(Errc::kDeviceTruncated);
    TRY(add(kState, range, crc32c(to.first(range.length)), {}));
  }
  TRY(add(kEnd, {}, 0, {}));
  return sync();
}

// ---- Undoing ------------------------------------------------------------------------------------

namespace {

struct UndoRecord {
  std::uint32_t kind = 0, length = 0, contents = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes_at = 0;  // in the undo file
  std::uint32_t old_crc = 0;   // of what the range held, of kinds 2 and 3
};

struct UndoPlan {
  std::uint64_t device_bytes = 0;
  std::vector<UndoRecord> ranges;
  std::vector<std::uint32_t> states;
  bool has_end = false;
};

// Reads into `to` the contents that the range had before the repair.
Result<Piece> old_contents(const Backing& file, const UndoRecord& range, AlignedBuffer& to) {
  const auto bytes = to.span().first(range.length);
  if (range.kind == kBytes) {
    TRY(file.read(range.bytes_at, bytes));
  } else {
    std::ranges::fill(bytes, std::byte{0});
  }
  return Piece(bytes);
}

// nullopt: the file ends here, or a crash has torn the record.
Result<std::optional<UndoRecord>> read_record(const Backing& file, std::uint64_t at,
                                              AlignedBuffer& buffer) {
  Header header{};
  ASSIGN_OR_RETURN(const std::size_t got, file.read_some(at, header));
  if (got < header.size() || load_le_at<std::uint32_t>(header, 0) != kMagic) return std::nullopt;
  UndoRecord record{.kind = load_le_at<std::uint32_t>(header, 8),
                    .length = load_le_at<std::uint32_t>(header, 12),
                    .contents = load_le_at<std::uint32_t>(header, 24),
                    .offset = load_le_at<std::uint64_t>(header, 16),
                    .bytes_at = at + kHeaderBytes};
  if (record.length > kMaxRangeBytes || record.kind < kStart || record.kind > kEnd) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(const std::uint64_t file_bytes, file.size_bytes());
  const std::uint64_t stored = record.kind == kBytes ? record.length : 0;
  if (stored > file_bytes - record.bytes_at) return std::nullopt;
  ASSIGN_OR_RETURN(const Piece bytes, old_contents(file, record, buffer));
  const std::uint32_t crc = load_le_at<std::uint32_t>(header, 4);
  if (crc != record_crc(header, bytes.first(stored))) return std::nullopt;
  record.old_crc = crc32c(bytes);
  return record;
}

// Ends at a torn record: the change that the record describes did not happen.
Result<std::optional<UndoPlan>> read_plan(const Backing& file) {
  AlignedBuffer buffer(kMaxRangeBytes);
  ASSIGN_OR_RETURN(auto record, read_record(file, 0, buffer));
  if (!record || record->kind != kStart) return std::nullopt;
  UndoPlan plan{.device_bytes = record->offset};
  while (!plan.has_end) {  // each turn is one record further
    const std::uint64_t next =
        record->bytes_at + (record->kind == kBytes ? record->length : 0);
    ASSIGN_OR_RETURN(record, read_record(file, next, buffer));
    if (!record || record->kind == kStart) break;
    if (record->kind == kState) plan.states.push_back(record->contents);
    if (record->kind == kBytes || record->kind == kZeros) plan.ranges.push_back(*record);
    plan.has_end = record->kind == kEnd;
  }
  plan.has_end = plan.has_end && plan.states.size() == plan.ranges.size();
  return plan;
}

// Whether each range holds what the repair left there, or what an interrupted undo wrote back.
Result<bool> is_unchanged(const Backing& device, const UndoPlan& plan) {
  AlignedBuffer now(kMaxRangeBytes);
  for (std::size_t i = 0; i < plan.ranges.size(); ++i) {
    const UndoRecord& range = plan.ranges[i];
    const auto to = now.span().first(range.length);
    TRY(device.read(range.offset, to));
    const std::uint32_t crc = crc32c(to);
    if (crc != plan.states[i] && crc != range.old_crc) return false;
  }
  return true;
}

Result<std::uint64_t> write_back(const Backing& file, const Backing& device,
                                 const UndoPlan& plan) {
  AlignedBuffer buffer(kMaxRangeBytes);
  std::uint64_t bytes = 0;
  for (const UndoRecord& range : plan.ranges) {
    ASSIGN_OR_RETURN(const Piece old, old_contents(file, range, buffer));
    TRY(device.write(range.offset, old));
    bytes += old.size();
  }
  TRY(device.sync());
  return bytes;
}

std::unexpected<std::string> refused(const std::string& path, std::string_view why) {
  return std::unexpected(path + ": " + std::string(why));
}

// Why the plan must not be carried out; empty if it may.
std::string objection(const Backing& device, const UndoPlan& plan, bool force) {
  const auto bytes = device.size_bytes();
  if (!bytes) return std::string(describe(bytes.error()));
  if (*bytes != plan.device_bytes) return "the undo file is of a device of another size";
  for (const UndoRecord& range : plan.ranges) {
    const bool fits = range.offset <= *bytes && range.length <= *bytes - range.offset;
    if (!fits) return "the undo file names places that the device does not have";
  }
  if (force) return {};
  if (!plan.has_end) {
    return "the repair was interrupted, so that later changes of the device would not show: undo "
           "it with -f if there were none";
  }
  const auto unchanged = is_unchanged(device, plan);
  if (!unchanged) return std::string(describe(unchanged.error()));
  return *unchanged ? "" : "it was changed after the repair, which cannot be undone any more";
}

}  // namespace

std::expected<std::uint64_t, std::string> undo(const std::string& undo_path,
                                               const std::string& device_path, bool force,
                                               Backing::Claim claim) {
  const auto file = Backing::open(undo_path, true, Backing::Claim::kNone);
  if (!file) return refused(undo_path, describe(file.error()));
  const auto plan = read_plan(*file);
  if (!plan) return refused(undo_path, describe(plan.error()));
  if (!*plan) return refused(undo_path, "this is no undo file of lazyfs");
  const auto device = Backing::open(device_path, false, claim);
  if (!device) return refused(device_path, describe(device.error()));
  const std::string why_not = objection(*device, **plan, force);
  if (!why_not.empty()) return refused(device_path, why_not);
  const auto bytes = write_back(*file, *device, **plan);
  if (!bytes) return refused(device_path, describe(bytes.error()));
  return *bytes;
}

}  // namespace lazyfs::device
