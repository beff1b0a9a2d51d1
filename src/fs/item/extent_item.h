// Items that map blocks of files: extents, references to blocks of shared-extent inodes, and
// reference counts.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "fs/item/fields.h"
#include "meta/tree/key.h"

namespace lazyfs::fs {

inline constexpr std::uint32_t kMaxExtentBlocks = 128;

// Consecutive blocks of a file that lie in the same order in one band.
struct ExtentRecord {
  BandAddress at;
  std::uint32_t append_record = 0;  // RBA (= number) of its append record
  std::vector<std::uint32_t> crcs;  // CRC-32C of each block; crcs.size() is the extent's length
  std::uint32_t blocks() const { return static_cast<std::uint32_t>(crcs.size()); }
  friend bool operator==(const ExtentRecord&, const ExtentRecord&) = default;
};
// Precedes the checksums. `algorithm` is 0: the blocks are stored as they are. `more` bytes of
// further fields (docs/format.md) lie between the header and the checksums. This version writes
// none, and ignores those that it reads.
struct ExtentHeader {
  BandAddress at;
  std::uint32_t append_record = 0;
  std::uint16_t blocks = 0;
  std::uint8_t algorithm = 0;
  std::uint8_t more = 0;
};
template <class Fields, FieldsOf<ExtentHeader> Record>
void list_fields(Fields& fields, Record& record) {
  fields("band", record.at.band);
  fields("RBA", record.at.rba);
  fields("RBA of the append record", record.append_record);
  fields("blocks", record.blocks);
  fields("algorithm", record.algorithm);
  fields("more", record.more);
}
std::vector<std::byte> encode(const ExtentRecord& record);
// Fails with kItemBad also for a reference.
Result<ExtentRecord> decode_extent(std::span<const std::byte> from);

// Maps `count` blocks of a file to the blocks of the shared-extent inode from `block` on.
struct ReferenceRecord {
  InodeNo shared;
  std::uint64_t block = 0;
  std::uint32_t count = 0;  // 1 .. kMaxExtentBlocks
  std::uint32_t blocks() const { return count; }
  friend bool operator==(const ReferenceRecord&, const ReferenceRecord&) = default;
};
inline constexpr std::uint32_t kReferenceMark = ~std::uint32_t{0};  // in place of an extent's band
template <class Fields, FieldsOf<ReferenceRecord> Record>
void list_fields(Fields& fields, Record& record) {
  fields.constant("0xFFFFFFFF", kReferenceMark);
  fields("blocks", record.count);
  fields("shared-extent inode", record.shared);
  fields("the first of its blocks", record.block);
}
inline constexpr std::size_t kReferenceBytes = 24;
std::vector<std::byte> encode(const ReferenceRecord& record);

// What a kExtent item holds.
using MapRecord = std::variant<ExtentRecord, ReferenceRecord>;
std::vector<std::byte> encode(const MapRecord& record);
Result<MapRecord> decode_map_record(std::span<const std::byte> from);
inline std::uint32_t blocks_of(const MapRecord& record) {
  return std::visit([](const auto& r) { return r.blocks(); }, record);
}

// The number of references to each of `blocks` consecutive blocks of a shared-extent inode.
struct ReferenceCountRecord {
  std::uint32_t blocks = 0;  // 1 .. kMaxExtentBlocks
  std::uint32_t references = 0;
  friend bool operator==(const ReferenceCountRecord&, const ReferenceCountRecord&) = default;
};
template <class Fields, FieldsOf<ReferenceCountRecord> Record>
void list_fields(Fields& fields, Record& record) {
  fields("blocks", record.blocks);
  fields("references", record.references);
}
inline constexpr std::size_t kReferenceCountBytes = 8;
std::array<std::byte, kReferenceCountBytes> encode(const ReferenceCountRecord& record);
Result<ReferenceCountRecord> decode_reference_count(std::span<const std::byte> from);

}  // namespace lazyfs::fs
