// A band's log of appends and deletes, and its summary.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/types.h"
#include "fs/item/fields.h"
#include "meta/tree/batch.h"

namespace lazyfs::fs {

// An append to a band. Inode 0: a crash or a failed append lost the blocks. No file refers to them;
// they are dead from the start and have no delete record.
struct AppendRecord {
  InodeNo inode;
  std::uint64_t file_block = 0;
  std::uint32_t blocks = 0;
  std::uint32_t checksum = 0;  // CRC-32C of the blocks' CRCs, as 4-byte little-endian integers
  friend bool operator==(const AppendRecord&, const AppendRecord&) = default;
};
template <class Fields, FieldsOf<AppendRecord> Record>
void list_fields(Fields& fields, Record& record) {
  fields("inode", record.inode);
  fields("file block", record.file_block);
  fields("blocks", record.blocks);
  fields("CRC-32C of the blocks' CRCs", record.checksum);
}
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
template <class Fields, FieldsOf<DeleteRecord> Record>
void list_fields(Fields& fields, Record& record) {
  fields("inode", record.inode);
  fields("file block", record.file_block);
  fields("RBA", record.rba);
  fields("blocks", record.blocks);
  fields("RBA of the append record", record.append_record);
}
inline constexpr std::size_t kDeleteRecordBytes = 28;
std::array<std::byte, kDeleteRecordBytes> encode(const DeleteRecord& record);
Result<DeleteRecord> decode_delete_record(std::span<const std::byte> from);

// The counters of a band, in the order of the item's bytes. Batch::add() changes them in place, so
// the bytes of `room` are kept.
struct BandSummaryRecord {
  std::uint64_t appended = 0;  // blocks written = write pointer, as far as recorded
  std::uint64_t live = 0;      // of these, blocks that extents refer to
  std::uint64_t append_records = 0;
  std::uint64_t delete_records = 0;
  std::array<std::byte, 32> room{};
  friend bool operator==(const BandSummaryRecord&, const BandSummaryRecord&) = default;
};
template <class Fields, FieldsOf<BandSummaryRecord> Record>
void list_fields(Fields& fields, Record& record) {
  fields("appended blocks", record.appended);
  fields("live blocks", record.live);
  fields("append records", record.append_records);
  fields("delete records", record.delete_records);
  fields.room(record.room);
}
inline constexpr std::size_t kBandSummaryBytes = 64;
std::array<std::byte, kBandSummaryBytes> encode(const BandSummaryRecord& record);
Result<BandSummaryRecord> decode_band_summary(std::span<const std::byte> from);
// What a batch adds to a band's summary; the room stays as it is.
struct BandSummaryChange {
  std::int64_t appended = 0, live = 0, append_records = 0, delete_records = 0;
};
void add(meta::Batch& batch, BandId band, const BandSummaryChange& change);

}  // namespace lazyfs::fs
