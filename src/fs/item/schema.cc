#include "fs/item/schema.h"

#include <xxhash.h>

#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/endian.h"

namespace lazyfs::fs {
namespace {

// Appends fields one behind the other.
class Writer {
 public:
  explicit Writer(std::span<std::byte> to) : to_(to) {}
  template <std::unsigned_integral T>
  void put(T value) {
    store_le_at<T>(to_, at_, value);
    at_ += sizeof(T);
  }
  void put(std::string_view text) {
    CHECK(at_ + text.size() <= to_.size());
    std::memcpy(to_.data() + at_, text.data(), text.size());
    at_ += text.size();
  }
  void put(const Timestamp& time) {
    put(static_cast<std::uint64_t>(time.seconds));
    put(time.nanoseconds);
  }
  void zeros(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) put(std::uint8_t{0});
  }
  void finish() const { CHECK(at_ == to_.size()); }

 private:
  std::span<std::byte> to_;
  std::size_t at_ = 0;
};

// Takes fields one behind the other; ok() tells whether all were there.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : from_(from) {}
  template <std::unsigned_integral T>
  T take() {
    if (!has(sizeof(T))) return 0;
    const T value = load_le_at<T>(from_, at_);
    at_ += sizeof(T);
    return value;
  }
  std::string take_text(std::size_t size) {
    if (!has(size)) return {};
    std::string text(reinterpret_cast<const char*>(from_.data() + at_), size);
    at_ += size;
    return text;
  }
  Timestamp take_time() {
    Timestamp time;
    time.seconds = static_cast<std::int64_t>(take<std::uint64_t>());
    time.nanoseconds = take<std::uint32_t>();
    if (time.nanoseconds >= 1'000'000'000) good_ = false;
    return time;
  }
  void take_zeros(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (take<std::uint8_t>() != 0) good_ = false;
    }
  }
  bool at_end() const { return at_ == from_.size(); }
  std::size_t left() const { return from_.size() - at_; }
  bool good() const { return good_; }
  bool finished() const { return good_ && at_end(); }

 private:
  bool has(std::size_t bytes) {
    if (!good_ || left() < bytes) good_ = false;
    return good_;
  }
  std::span<const std::byte> from_;
  std::size_t at_ = 0;
  bool good_ = true;
};

constexpr std::size_t kDentryHeaderBytes = 18;
constexpr std::size_t kExtentHeaderBytes = 16;
constexpr std::uint32_t kReferenceMark = ~std::uint32_t{0};  // where an extent has its band

void put_dentry(Writer& w, const DentryRecord& entry) {
  CHECK(!entry.name.empty() && entry.name.size() <= kMaxNameBytes);
  w.put(entry.inode.value);
  w.put(entry.cookie);
  w.put(entry.type);
  w.put(static_cast<std::uint8_t>(entry.name.size()));
  w.put(std::string_view(entry.name));
}

DentryRecord take_dentry(Reader& r) {
  DentryRecord entry;
  entry.inode.value = r.take<std::uint64_t>();
  entry.cookie = r.take<std::uint64_t>();
  entry.type = r.take<std::uint8_t>();
  entry.name = r.take_text(r.take<std::uint8_t>());
  return entry;
}

bool is_valid(const DentryRecord& entry) {
  return entry.inode.value >= 1 && entry.inode.value <= kMaxInode && entry.cookie >= 1 &&
         entry.type <= 15 && !entry.name.empty() && entry.name != "." && entry.name != ".." &&
         entry.name.find('/') == std::string::npos && entry.name.find('\0') == std::string::npos;
}

}  // namespace

std::uint64_t name_hash(std::string_view name, std::uint64_t seed) {
  return XXH3_64bits_withSeed(name.data(), name.size(), seed);
}

std::uint64_t seed_of(std::span<const std::uint8_t, 16> uuid) {
  return XXH3_64bits(uuid.data(), uuid.size());
}

std::array<std::byte, kInodeBytes> encode(const InodeRecord& record) {
  std::array<std::byte, kInodeBytes> bytes{};
  Writer w(bytes);
  w.put(record.mode);
  w.put(record.links);
  w.put(record.owner.uid);
  w.put(record.owner.gid);
  w.put(record.size);
  w.put(record.blocks);
  w.put(record.rdev);
  w.put(record.access);
  w.put(record.modification);
  w.put(record.change);
  w.put(record.birth);
  w.put(record.parent.value);
  w.put(record.next_cookie);
  w.put(record.entries);
  w.put(record.generation);
  w.put(record.xattrs);
  w.put(record.name_seed);
  w.finish();
  return bytes;
}

Result<InodeRecord> decode_inode(std::span<const std::byte> from) {
  Reader r(from);
  InodeRecord record;
  record.mode = r.take<std::uint32_t>();
  record.links = r.take<std::uint32_t>();
  record.owner.uid = r.take<std::uint32_t>();
  record.owner.gid = r.take<std::uint32_t>();
  record.size = r.take<std::uint64_t>();
  record.blocks = r.take<std::uint64_t>();
  record.rdev = r.take<std::uint64_t>();
  record.access = r.take_time();
  record.modification = r.take_time();
  record.change = r.take_time();
  record.birth = r.take_time();
  record.parent.value = r.take<std::uint64_t>();
  record.next_cookie = r.take<std::uint64_t>();
  record.entries = r.take<std::uint64_t>();
  record.generation = r.take<std::uint32_t>();
  record.xattrs = r.take<std::uint32_t>();
  record.name_seed = r.take<std::uint64_t>();
  const std::uint32_t type = record.mode >> 12;
  const bool known = record.mode == kSharedMode || type == 1 || type == 2 || type == 4 ||
                     type == 6 || type == 8 || type == 10 || type == 12;
  if (!r.finished() || !known || record.mode > 0xFFFF || record.size > kMaxFileBytes) {
    return fail(Errc::kItemBad);
  }
  return record;
}

std::size_t encoded_bytes(const DentryRecord& entry) {
  return kDentryHeaderBytes + entry.name.size();
}

std::vector<std::byte> encode(std::span<const DentryRecord> entries) {
  std::size_t size = 0;
  for (const DentryRecord& entry : entries) size += encoded_bytes(entry);
  std::vector<std::byte> bytes(size);
  Writer w(bytes);
  for (const DentryRecord& entry : entries) put_dentry(w, entry);
  w.finish();
  return bytes;
}

Result<std::vector<DentryRecord>> decode_dentries(std::span<const std::byte> from) {
  Reader r(from);
  std::vector<DentryRecord> entries;
  while (!r.at_end()) {
    entries.push_back(take_dentry(r));
    if (!r.good() || !is_valid(entries.back())) return fail(Errc::kItemBad);
  }
  if (entries.empty()) return fail(Errc::kItemBad);
  return entries;
}

std::vector<std::byte> encode(const DentryRecord& entry) { return encode(std::span(&entry, 1)); }

Result<DentryRecord> decode_dentry(std::span<const std::byte> from) {
  Reader r(from);
  DentryRecord entry = take_dentry(r);
  if (!r.finished() || !is_valid(entry)) return fail(Errc::kItemBad);
  return entry;
}

std::vector<std::byte> encode(const ExtentRecord& record) {
  CHECK(record.blocks() >= 1 && record.blocks() <= kMaxExtentBlocks);
  std::vector<std::byte> bytes(kExtentHeaderBytes + 4 * record.crcs.size());
  Writer w(bytes);
  w.put(record.at.band.value);
  w.put(record.at.rba);
  w.put(record.append_record);
  w.put(record.blocks());
  for (const std::uint32_t crc : record.crcs) w.put(crc);
  w.finish();
  return bytes;
}

Result<ExtentRecord> decode_extent(std::span<const std::byte> from) {
  Reader r(from);
  ExtentRecord record;
  record.at.band.value = r.take<std::uint32_t>();
  record.at.rba = r.take<std::uint32_t>();
  record.append_record = r.take<std::uint32_t>();
  const auto blocks = r.take<std::uint32_t>();
  if (!r.good() || blocks < 1 || blocks > kMaxExtentBlocks || r.left() != std::size_t{4} * blocks ||
      record.at.band.value == kReferenceMark || record.append_record > record.at.rba ||
      std::uint64_t{record.at.rba} + blocks > UINT32_MAX) {
    return fail(Errc::kItemBad);
  }
  record.crcs.reserve(blocks);
  for (std::uint32_t i = 0; i < blocks; ++i) record.crcs.push_back(r.take<std::uint32_t>());
  return record;
}

std::vector<std::byte> encode(const ReferenceRecord& record) {
  CHECK(record.count >= 1 && record.count <= kMaxExtentBlocks);
  std::vector<std::byte> bytes(kReferenceBytes);
  Writer w(bytes);
  w.put(kReferenceMark);
  w.put(record.count);
  w.put(record.shared.value);
  w.put(record.block);
  w.finish();
  return bytes;
}

std::vector<std::byte> encode(const MapRecord& record) {
  return std::visit([](const auto& r) { return encode(r); }, record);
}

Result<MapRecord> decode_map_record(std::span<const std::byte> from) {
  Reader r(from);
  if (r.take<std::uint32_t>() != kReferenceMark) {
    ASSIGN_OR_RETURN(ExtentRecord extent, decode_extent(from));
    return MapRecord(std::move(extent));
  }
  ReferenceRecord record;
  record.count = r.take<std::uint32_t>();
  record.shared.value = r.take<std::uint64_t>();
  record.block = r.take<std::uint64_t>();
  if (!r.finished() || record.count < 1 || record.count > kMaxExtentBlocks ||
      record.shared.value == 0 || record.shared.value > kMaxInode ||
      record.block > blocks_for(kMaxFileBytes) - record.count) {
    return fail(Errc::kItemBad);
  }
  return MapRecord(record);
}

std::array<std::byte, kShareCountBytes> encode(const ShareCountRecord& record) {
  std::array<std::byte, kShareCountBytes> bytes{};
  Writer w(bytes);
  w.put(record.blocks);
  w.put(record.references);
  w.finish();
  return bytes;
}

Result<ShareCountRecord> decode_share_count(std::span<const std::byte> from) {
  Reader r(from);
  ShareCountRecord record;
  record.blocks = r.take<std::uint32_t>();
  record.references = r.take<std::uint32_t>();
  if (!r.finished() || record.blocks < 1 || record.blocks > kMaxExtentBlocks ||
      record.references == 0) {
    return fail(Errc::kItemBad);
  }
  return record;
}

std::array<std::byte, kAppendRecordBytes> encode(const AppendRecord& record) {
  std::array<std::byte, kAppendRecordBytes> bytes{};
  Writer w(bytes);
  w.put(record.inode.value);
  w.put(record.file_block);
  w.put(record.blocks);
  w.put(record.checksum);
  w.finish();
  return bytes;
}

Result<AppendRecord> decode_append_record(std::span<const std::byte> from) {
  Reader r(from);
  AppendRecord record;
  record.inode.value = r.take<std::uint64_t>();
  record.file_block = r.take<std::uint64_t>();
  record.blocks = r.take<std::uint32_t>();
  record.checksum = r.take<std::uint32_t>();
  if (!r.finished() || record.blocks == 0) return fail(Errc::kItemBad);
  return record;
}

std::uint32_t checksum_of(std::span<const std::uint32_t> crcs) {
  std::uint32_t sum = 0;
  for (const std::uint32_t crc : crcs) {
    std::array<std::byte, 4> bytes;
    store_le<std::uint32_t>(bytes, crc);
    sum = crc32c(bytes, sum);
  }
  return sum;
}

std::array<std::byte, kDeleteRecordBytes> encode(const DeleteRecord& record) {
  std::array<std::byte, kDeleteRecordBytes> bytes{};
  Writer w(bytes);
  w.put(record.inode.value);
  w.put(record.file_block);
  w.put(record.rba);
  w.put(record.blocks);
  w.put(record.append_record);
  w.finish();
  return bytes;
}

Result<DeleteRecord> decode_delete_record(std::span<const std::byte> from) {
  Reader r(from);
  DeleteRecord record;
  record.inode.value = r.take<std::uint64_t>();
  record.file_block = r.take<std::uint64_t>();
  record.rba = r.take<std::uint32_t>();
  record.blocks = r.take<std::uint32_t>();
  record.append_record = r.take<std::uint32_t>();
  if (!r.finished() || record.blocks == 0 || record.append_record > record.rba) {
    return fail(Errc::kItemBad);
  }
  return record;
}

std::array<std::byte, 32> encode(const BandSummaryRecord& record) {
  std::array<std::byte, 32> bytes{};
  Writer w(bytes);
  w.put(record.appended);
  w.put(record.live);
  w.put(record.append_records);
  w.put(record.delete_records);
  w.finish();
  return bytes;
}

Result<BandSummaryRecord> decode_band_summary(std::span<const std::byte> from) {
  Reader r(from);
  BandSummaryRecord record;
  record.appended = r.take<std::uint64_t>();
  record.live = r.take<std::uint64_t>();
  record.append_records = r.take<std::uint64_t>();
  record.delete_records = r.take<std::uint64_t>();
  if (!r.finished() || record.live > record.appended) return fail(Errc::kItemBad);
  return record;
}

std::array<std::byte, 24> encode(const CounterRecord& record) {
  std::array<std::byte, 24> bytes{};
  Writer w(bytes);
  w.put(record.next_inode);
  w.put(record.user_blocks);
  w.put(record.collector_blocks);
  w.finish();
  return bytes;
}

Result<CounterRecord> decode_counters(std::span<const std::byte> from) {
  Reader r(from);
  CounterRecord record;
  record.next_inode = r.take<std::uint64_t>();
  record.user_blocks = r.take<std::uint64_t>();
  record.collector_blocks = r.take<std::uint64_t>();
  if (!r.finished() || record.next_inode < 2 || record.next_inode > kMaxInode + 1) {
    return fail(Errc::kItemBad);
  }
  return record;
}

std::array<std::byte, 8> encode(const OrphanRecord& record) {
  std::array<std::byte, 8> bytes{};
  bytes[0] = static_cast<std::byte>(record.work);
  return bytes;
}

Result<OrphanRecord> decode_orphan(std::span<const std::byte> from) {
  Reader r(from);
  const auto work = r.take<std::uint8_t>();
  r.take_zeros(7);
  if (!r.finished() || work < 1 || work > 2) return fail(Errc::kItemBad);
  return OrphanRecord{static_cast<OrphanRecord::Work>(work)};
}

std::array<std::byte, kLostRangeBytes> encode(const LostRangeRecord& record) {
  std::array<std::byte, kLostRangeBytes> bytes{};
  const auto put = [&](std::size_t at, const meta::Key& key) {
    store_le_at(std::span<std::byte>(bytes), at, key.owner);
    store_le_at(std::span<std::byte>(bytes), at + 8, key.offset);
    store_le_at(std::span<std::byte>(bytes), at + 16, key.kind);
  };
  put(0, record.first);
  if (record.end) put(17, *record.end);
  bytes[34] = record.end ? std::byte{1} : std::byte{0};
  return bytes;
}

Result<LostRangeRecord> decode_lost_range(std::span<const std::byte> from) {
  Reader r(from);
  const auto take = [&] {
    meta::Key key;
    key.owner = r.take<std::uint64_t>();
    key.offset = r.take<std::uint64_t>();
    key.kind = r.take<std::uint8_t>();
    return key;
  };
  LostRangeRecord record{take(), std::nullopt};
  const meta::Key end = take();
  const auto has_end = r.take<std::uint8_t>();
  r.take_zeros(kLostRangeBytes - 35);
  if (!r.finished() || has_end > 1 || (has_end == 0 && end != meta::Key{})) {
    return fail(Errc::kItemBad);
  }
  if (has_end == 1) record.end = end;
  return record;
}

std::vector<std::byte> encode(const XattrRecord& record) {
  CHECK(!record.name.empty() && record.name.size() <= kMaxNameBytes);
  std::vector<std::byte> bytes(5 + record.name.size());
  Writer w(bytes);
  w.put(record.value_bytes);
  w.put(static_cast<std::uint8_t>(record.name.size()));
  w.put(std::string_view(record.name));
  w.finish();
  return bytes;
}

Result<XattrRecord> decode_xattr(std::span<const std::byte> from) {
  Reader r(from);
  XattrRecord record;
  record.value_bytes = r.take<std::uint32_t>();
  record.name = r.take_text(r.take<std::uint8_t>());
  if (!r.finished() || record.name.empty() || record.value_bytes > kMaxXattrBytes) {
    return fail(Errc::kItemBad);
  }
  return record;
}

}  // namespace lazyfs::fs
