#include "fs/file/file_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/before_wait.h"
#include "base/log.h"
#include "data/verified_read.h"
#include "fs/file/inline_block.h"

namespace lazyfs::fs {
namespace {

// Copies the part of `bytes`, which begin at `bytes_offset` of the file, that lies in `to`, which
// begins at `offset`.
void copy_overlap(std::uint64_t bytes_offset, std::span<const std::byte> bytes,
                  std::uint64_t offset, std::span<std::byte> to) {
  const std::uint64_t from = std::max(bytes_offset, offset);
  const std::uint64_t end = std::min(bytes_offset + bytes.size(), offset + to.size());
  if (from >= end) return;
  std::memcpy(to.data() + (from - offset), bytes.data() + (from - bytes_offset), end - from);
}

bool follows(const MappedExtent& a, const MappedExtent& b) {
  return a.end() == b.file_block && a.extent.at.band == b.extent.at.band &&
         a.extent.at.rba + a.extent.blocks() == b.extent.at.rba;
}

}  // namespace

// The parts of a read that the write buffer does not have.
struct FileReader::Plan {
  std::vector<Piece> extents;

  // A run that continues the last one becomes one read with it.
  void add(Piece piece) {
    if (extents.empty() || !follows(extents.back().extent, piece.extent)) {
      extents.push_back(std::move(piece));
      return;
    }
    auto& crcs = extents.back().extent.extent.crcs;
    const auto& more = piece.extent.extent.crcs;
    crcs.insert(crcs.end(), more.begin(), more.end());
  }
  std::optional<InlineBlock> inline_part;  // the inline block, when it is read
};

Result<> FileReader::plan_entry(MapEntry& entry, Plan& plan) {
  if (const auto* reference = std::get_if<ReferenceRecord>(&entry.record)) {
    ASSIGN_OR_RETURN(auto pieces, shared_.resolve(entry.file_block, *reference, bands_));
    for (Piece& piece : pieces) plan.add(std::move(piece));
    return ok();
  }
  auto& extent = std::get<ExtentRecord>(entry.record);
  const BandId band = extent.at.band;
  if (band.value >= bands_.band_count()) return fail(Errc::kItemBad);
  plan.add({{entry.file_block, std::move(extent)}, bands_.pin(band)});
  return ok();
}

Result<> FileReader::plan_range(Inode& inode, std::uint64_t first, std::uint64_t count,
                                Plan& plan) {
  ASSIGN_OR_RETURN(auto entries, read_map(store_, inode.no, first, count));
  std::uint64_t mapped = 0;
  for (const MapEntry& entry : entries) mapped += entry.blocks();
  const InlineState known = inode.inline_state;
  const auto is_wanted = [&](std::uint64_t block) {
    const bool is_mapped = std::ranges::any_of(entries, [block](const MapEntry& entry) {
      return entry.file_block <= block && block < entry.end();
    });
    return block >= first && block - first < count && !is_mapped;
  };
  if (mapped < count && (!known.is_known || (known.bytes > 0 && is_wanted(known.block)))) {
    ASSIGN_OR_RETURN(auto found, read_inline(store_, inode));
    if (found && is_wanted(found->block)) plan.inline_part = std::move(found);
  }
  for (MapEntry& entry : entries) TRY(plan_entry(entry, plan));
  return ok();
}

Result<> FileReader::read_run(const MappedExtent& run, std::uint64_t offset,
                              std::span<std::byte> to) {
  const std::uint64_t run_offset = run.file_block * kBlockBytes;
  const std::size_t run_bytes = std::size_t{run.extent.blocks()} * kBlockBytes;
  const bool inside = run_offset >= offset && run_offset + run_bytes <= offset + to.size();
  std::byte* direct = to.data() + (run_offset - offset);
  if (inside && reinterpret_cast<std::uintptr_t>(direct) % kBlockBytes == 0) {
    return data::read_verified(device_, run.extent.at, run.extent.crcs,
                               std::span(direct, run_bytes));
  }
  AlignedBuffer bounce(run_bytes);
  TRY(data::read_verified(device_, run.extent.at, run.extent.crcs, bounce.span()));
  copy_overlap(run_offset, bounce.span(), offset, to);
  return ok();
}

Result<> FileReader::read_piece(const Piece& piece, std::uint64_t offset,
                                std::span<std::byte> to) {
  const auto done = read_run(piece.extent, offset, to);
  if (done) return ok();
  if (done.error() == Errc::kDataChecksumBad) ++counters_.checksum_errors;
  if (done.error() == Errc::kDeviceRead) {
    ++counters_.read_errors;
    bands_.note_unreadable(piece.extent.extent.at.band);
  }
  return done;
}

// Neighbours are read one after the other by one thread, so that the device may read ahead.
Result<> FileReader::read_pieces(std::span<const Piece> pieces, std::uint64_t offset,
                                 std::span<std::byte> to) {
  if (!may_wait()) return fail(Errc::kWouldWait);
  std::vector<const Piece*> order;
  for (const Piece& piece : pieces) order.push_back(&piece);
  std::ranges::sort(order, {}, [](const Piece* piece) {
    const BandAddress at = piece->extent.extent.at;
    return std::pair(at.band.value, at.rba);
  });
  const std::size_t parts = std::min(order.size(), kReadsAtOnce);
  std::vector<Result<>> done(parts, ok());
  threads_.run(parts, [&](std::size_t part) {
    const std::size_t end = order.size() * (part + 1) / parts;
    for (std::size_t i = order.size() * part / parts; i < end && done[part]; ++i) {
      done[part] = read_piece(*order[i], offset, to);
    }
  });
  for (const Result<>& part : done) TRY(part);
  return ok();
}

Result<> FileReader::read_planned(const Plan& plan, std::uint64_t offset, std::span<std::byte> to) {
  if (const auto& part = plan.inline_part) {
    copy_overlap(part->block * kBlockBytes, part->bytes, offset, to);
  }
  if (plan.extents.empty()) return ok();
  if (plan.extents.size() == 1) return read_piece(plan.extents.front(), offset, to);
  return read_pieces(plan.extents, offset, to);
}

Result<std::size_t> FileReader::read(Inode& inode, std::uint64_t offset, std::span<std::byte> to) {
  Plan plan;
  std::size_t length = 0;
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> buffered;
  {
    ReaderLock lock(inode.mu);
    if (offset >= inode.record.size || to.empty()) return 0;
    length =
        static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), inode.record.size - offset));
    const std::uint64_t first = offset / kBlockBytes;
    const std::uint64_t end = (offset + length - 1) / kBlockBytes + 1;
    // Blocks in the buffer are copied at once; the ranges between them are planned.
    std::uint64_t missing = first;
    const bool clean = !inode.buffer || inode.buffer->clean();
    if (!clean) {
      for (std::uint64_t block = first; block < end; ++block) {
        const auto contents = inode.buffer->contents(block);
        if (contents.empty()) continue;
        if (missing < block) TRY(plan_range(inode, missing, block - missing, plan));
        buffered.emplace_back(block, std::vector(contents.begin(), contents.end()));
        missing = block + 1;
      }
    }
    if (missing < end) TRY(plan_range(inode, missing, end - missing, plan));
  }
  std::uint64_t covered = 0;
  for (const Piece& p : plan.extents) covered += p.extent.extent.blocks();
  if (covered * kBlockBytes < length || offset % kBlockBytes != 0) {
    std::memset(to.data(), 0, length);  // holes
  }
  // `to` may be longer than the file: whole blocks can then be read in place.
  const std::size_t whole = blocks_for(length) * kBlockBytes;
  TRY(read_planned(plan, offset, to.first(std::min(to.size(), std::max(length, whole)))));
  for (const auto& [block, contents] : buffered) {
    copy_overlap(block * kBlockBytes, contents, offset, to.first(length));
  }
  return length;
}

Result<FileReader::Block> FileReader::stored_block(Inode& inode, std::uint64_t block) {
  Plan plan;
  Block stored{AlignedBuffer::zeroed(kBlockBytes)};
  std::uint64_t size = 0;
  {
    ReaderLock lock(inode.mu);
    stored.map_version = inode.map_version;
    size = inode.record.size;
    TRY(plan_range(inode, block, 1, plan));
  }
  const std::uint64_t offset = block * kBlockBytes;
  TRY(read_planned(plan, offset, stored.bytes.span()));
  const std::uint64_t in_file = std::clamp(size, offset, offset + kBlockBytes) - offset;
  const auto rest = stored.bytes.span().subspan(in_file);
  stored.had_rest = std::ranges::any_of(rest, [](std::byte b) { return b != std::byte{0}; });
  std::ranges::fill(rest, std::byte{0});
  return stored;
}

Result<std::uint64_t> file_size(Inode& inode) {
  ReaderLock lock(inode.mu);
  if (inode.deleted) return fail(Errc::kStale);
  if (!S_ISREG(inode.record.mode)) return fail(Errc::kInvalid);
  return inode.record.size;
}

}  // namespace lazyfs::fs
