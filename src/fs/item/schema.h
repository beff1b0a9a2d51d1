// What the items of the metadata tree mean: keys and records, specified in docs/format.md
// section 5. This is the only place that knows their bytes. Everything decoded comes from a disk
// and is checked: a decode function returns kItemBad, and never reads outside its span.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/types.h"
#include "fs/item/attributes.h"
#include "meta/tree/key.h"

namespace lazyfs::fs {

// ---- Keys ---------------------------------------------------------------------------------------

// Kinds of items of one inode; the owner is the inode number (1 .. kMaxInode).
enum class Kind : std::uint8_t {
  kInode = 1,       // offset 0: InodeRecord
  kDentryName = 2,  // offset: hash of the name: the entries with that hash
  kDentrySeq = 3,   // offset: cookie: one entry; readdir order
  kSymlink = 4,     // offset: number of the piece: kMaxValueBytes of the target each
  kXattrName = 5,   // offset: id: name and length of the value
  kXattrValue = 6,  // offset: id << 8 | piece: kMaxValueBytes of the value each
  kInline = 7,      // offset 0: contents of block 0, zeros behind
  kExtent = 8,      // offset: first file block: ExtentRecord or ReferenceRecord
  kShareCount = 9,  // of a shared inode; offset: first block: ShareCountRecord
  // Items of the volume (owner kVolumeOwner).
  kCounters = 16,     // offset 0: CounterRecord
  kOrphan = 17,       // offset: inode: OrphanRecord
  kBandSummary = 18,  // offset: band: four 64-bit counters, changed by Batch::add
  kLostRange = 19,    // offset: its number: LostRangeRecord; only while a repair is unfinished
  // Items of a band (owner band_owner(band)).
  kAppendRecord = 24,  // offset: RBA: AppendRecord
  kDeleteRecord = 25,  // offset: RBA of the first block that died (each dies once): DeleteRecord
};

inline constexpr std::uint64_t kMaxInode = (std::uint64_t{1} << 62) - 1;
inline constexpr std::uint64_t kVolumeOwner = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kBandOwnerBase = kVolumeOwner + (std::uint64_t{1} << 32);

constexpr std::uint64_t band_owner(BandId band) { return kBandOwnerBase + band.value; }
constexpr meta::Key key_of(std::uint64_t owner, Kind kind, std::uint64_t offset = 0) {
  return {owner, static_cast<std::uint8_t>(kind), offset};
}
constexpr meta::Key key_of(InodeNo inode, Kind kind, std::uint64_t offset = 0) {
  return key_of(inode.value, kind, offset);
}
constexpr meta::Key key_of(BandId band, Kind kind, std::uint64_t offset = 0) {
  return key_of(band_owner(band), kind, offset);
}

// Where a name stands among a directory's kDentryName items: XXH3 seeded with `seed`
// (name_seed_of()). Who knows the seed can find names with one hash, so mkfs makes it at random, and
// each directory takes it over from the one it is made in.
std::uint64_t name_hash(std::string_view name, std::uint64_t seed);
// The seed of directories that were made before directories had one.
std::uint64_t seed_of(std::span<const std::uint8_t, 16> uuid);
// Names with one hash take at most so many consecutive name items (invariant N2 of NameItems).
inline constexpr std::uint64_t kMaxChainItems = 1024;

// ---- Inodes -------------------------------------------------------------------------------------

inline constexpr std::size_t kInodeBytes = 128;

// The mode of a *shared inode*: one without a name or a type, which holds blocks that parts of
// several files refer to (ReferenceRecord). It has one link, so that nobody deletes it for want of
// names, and goes with its last block.
inline constexpr std::uint32_t kSharedMode = 0;

struct InodeRecord {
  std::uint32_t mode = 0;
  std::uint32_t links = 0;
  Owner owner;
  std::uint64_t size = 0;
  std::uint64_t blocks = 0;  // data blocks that extents and references map
  std::uint64_t rdev = 0;
  Timestamp access, modification, change, birth;
  InodeNo parent;                 // directories: the directory it is in (the root's: itself)
  std::uint64_t next_cookie = 1;  // directories: the cookie of the next entry
  std::uint64_t entries = 0;      // directories: entries but "." and ".."
  std::uint32_t generation = 1;
  std::uint32_t xattrs = 0;  // number of extended attributes
  std::uint64_t name_seed = 0;  // directories: of the hashes of names; 0: seed_of() the volume's UUID
  friend bool operator==(const InodeRecord&, const InodeRecord&) = default;
};
std::array<std::byte, kInodeBytes> encode(const InodeRecord& record);
Result<InodeRecord> decode_inode(std::span<const std::byte> from);
constexpr std::uint64_t name_seed_of(const InodeRecord& directory, std::uint64_t volume_seed) {
  return directory.name_seed != 0 ? directory.name_seed : volume_seed;
}

// ---- Directory entries --------------------------------------------------------------------------

struct DentryRecord {
  InodeNo inode;
  std::uint64_t cookie = 0;
  std::uint8_t type = 0;  // (mode & S_IFMT) >> 12
  std::string name;
  friend bool operator==(const DentryRecord&, const DentryRecord&) = default;
};
std::size_t encoded_bytes(const DentryRecord& entry);
// A kDentryName item holds the entries whose names share a hash, nearly always one. NameItems says
// where the entries stand that do not fit into one item.
std::vector<std::byte> encode(std::span<const DentryRecord> entries);
Result<std::vector<DentryRecord>> decode_dentries(std::span<const std::byte> from);
// A kDentrySeq item is a list of one, whose cookie is the item's offset.
std::vector<std::byte> encode(const DentryRecord& entry);
Result<DentryRecord> decode_dentry(std::span<const std::byte> from);

// ---- Extents and the logs of bands --------------------------------------------------------------

inline constexpr std::uint32_t kMaxExtentBlocks = 128;
inline constexpr std::size_t kMaxInlineBytes = meta::kMaxValueBytes;

// `blocks` blocks of a file that lie in one band, one behind the other.
struct ExtentRecord {
  BandAddress at;
  std::uint32_t append_record = 0;  // RBA (= number) of the append record that it came with
  std::vector<std::uint32_t> crcs;  // CRC-32C of each block; crcs.size() is the extent's length
  std::uint32_t blocks() const { return static_cast<std::uint32_t>(crcs.size()); }
  friend bool operator==(const ExtentRecord&, const ExtentRecord&) = default;
};
std::vector<std::byte> encode(const ExtentRecord& record);
// A reference is kItemBad here.
Result<ExtentRecord> decode_extent(std::span<const std::byte> from);

// `count` blocks of a file that are those of the shared inode from `block` on.
struct ReferenceRecord {
  InodeNo shared;
  std::uint64_t block = 0;
  std::uint32_t count = 0;  // 1 .. kMaxExtentBlocks
  std::uint32_t blocks() const { return count; }
  friend bool operator==(const ReferenceRecord&, const ReferenceRecord&) = default;
};
inline constexpr std::size_t kReferenceBytes = 24;
std::vector<std::byte> encode(const ReferenceRecord& record);

// What a kExtent item holds.
using MapRecord = std::variant<ExtentRecord, ReferenceRecord>;
std::vector<std::byte> encode(const MapRecord& record);
Result<MapRecord> decode_map_record(std::span<const std::byte> from);
inline std::uint32_t blocks_of(const MapRecord& record) {
  return std::visit([](const auto& r) { return r.blocks(); }, record);
}

// How many references there are to each of `blocks` blocks of a shared inode.
struct ShareCountRecord {
  std::uint32_t blocks = 0;  // 1 .. kMaxExtentBlocks
  std::uint32_t references = 0;
  friend bool operator==(const ShareCountRecord&, const ShareCountRecord&) = default;
};
inline constexpr std::size_t kShareCountBytes = 8;
std::array<std::byte, kShareCountBytes> encode(const ShareCountRecord& record);
Result<ShareCountRecord> decode_share_count(std::span<const std::byte> from);

// Inode 0: blocks that nothing refers to (lost in a crash or by a failed append); dead from the
// start, with no delete record.
struct AppendRecord {
  InodeNo inode;
  std::uint64_t file_block = 0;
  std::uint32_t blocks = 0;
  std::uint32_t checksum = 0;  // CRC-32C of the blocks' CRCs, as 4-byte little-endian integers
  friend bool operator==(const AppendRecord&, const AppendRecord&) = default;
};
inline constexpr std::size_t kAppendRecordBytes = 24;
std::array<std::byte, kAppendRecordBytes> encode(const AppendRecord& record);
Result<AppendRecord> decode_append_record(std::span<const std::byte> from);
std::uint32_t checksum_of(std::span<const std::uint32_t> crcs);

struct DeleteRecord {
  InodeNo inode;
  std::uint64_t file_block = 0;
  std::uint32_t rba = 0;  // the item's offset
  std::uint32_t blocks = 0;
  std::uint32_t append_record = 0;  // RBA of the append record whose blocks died
  friend bool operator==(const DeleteRecord&, const DeleteRecord&) = default;
};
inline constexpr std::size_t kDeleteRecordBytes = 28;
std::array<std::byte, kDeleteRecordBytes> encode(const DeleteRecord& record);
Result<DeleteRecord> decode_delete_record(std::span<const std::byte> from);

// The four counters of a band, in the order in which they stand in the item.
struct BandSummaryRecord {
  std::uint64_t appended = 0;  // blocks written, = where the write pointer is accounted to be
  std::uint64_t live = 0;      // of these, blocks that extents refer to
  std::uint64_t append_records = 0;
  std::uint64_t delete_records = 0;
  friend bool operator==(const BandSummaryRecord&, const BandSummaryRecord&) = default;
};
std::array<std::byte, 32> encode(const BandSummaryRecord& record);
Result<BandSummaryRecord> decode_band_summary(std::span<const std::byte> from);

// ---- The volume ---------------------------------------------------------------------------------

struct CounterRecord {
  std::uint64_t next_inode = 2;   // no inode at or above it has been given out
  std::uint64_t user_blocks = 0;  // data blocks written for users since mkfs (write amplification)
  std::uint64_t collector_blocks = 0;  // data blocks written by the garbage collector
  friend bool operator==(const CounterRecord&, const CounterRecord&) = default;
};
std::array<std::byte, 24> encode(const CounterRecord& record);
Result<CounterRecord> decode_counters(std::span<const std::byte> from);

// An inode with work to be finished after a crash: to be deleted (no name is left), or blocks
// behind its end to be freed.
struct OrphanRecord {
  enum class Work : std::uint8_t { kDelete = 1, kTruncate = 2 };
  Work work = Work::kDelete;
  friend bool operator==(const OrphanRecord&, const OrphanRecord&) = default;
};
std::array<std::byte, 8> encode(const OrphanRecord& record);
Result<OrphanRecord> decode_orphan(std::span<const std::byte> from);

// Where a repair that has not ended found items to be lost: first <= key, and key < end unless
// there is none.
struct LostRangeRecord {
  meta::Key first;
  std::optional<meta::Key> end;
  friend bool operator==(const LostRangeRecord&, const LostRangeRecord&) = default;
};
inline constexpr std::size_t kLostRangeBytes = 40;
std::array<std::byte, kLostRangeBytes> encode(const LostRangeRecord& record);
Result<LostRangeRecord> decode_lost_range(std::span<const std::byte> from);

// An id of an attribute is below it: the offsets of its value are id << 8 and those behind.
inline constexpr std::uint64_t kXattrIdEnd = std::uint64_t{1} << 56;
struct XattrRecord {
  std::uint32_t value_bytes = 0;
  std::string name;
  friend bool operator==(const XattrRecord&, const XattrRecord&) = default;
};
std::vector<std::byte> encode(const XattrRecord& record);
Result<XattrRecord> decode_xattr(std::span<const std::byte> from);

}  // namespace lazyfs::fs
