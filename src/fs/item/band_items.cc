#include "fs/item/band_items.h"

#include "base/crc32c.h"
#include "fs/item/keys.h"

namespace lazyfs::fs {

std::array<std::byte, kAppendRecordBytes> encode(const AppendRecord& record) {
  return encode_fields<kAppendRecordBytes>(record);
}

Result<AppendRecord> decode_append_record(std::span<const std::byte> from) {
  AppendRecord record;
  if (!decode_fields(from, record) || record.blocks == 0) return fail(Errc::kItemBad);
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
  return encode_fields<kDeleteRecordBytes>(record);
}

Result<DeleteRecord> decode_delete_record(std::span<const std::byte> from) {
  DeleteRecord record;
  if (!decode_fields(from, record) || record.blocks == 0 || record.append_record > record.rba) {
    return fail(Errc::kItemBad);
  }
  return record;
}

std::array<std::byte, kBandSummaryBytes> encode(const BandSummaryRecord& record) {
  return encode_fields<kBandSummaryBytes>(record);
}

Result<BandSummaryRecord> decode_band_summary(std::span<const std::byte> from) {
  BandSummaryRecord record;
  if (!decode_fields(from, record) || record.live > record.appended) return fail(Errc::kItemBad);
  return record;
}

void add(meta::Batch& batch, BandId band, const BandSummaryChange& change) {
  const std::array<std::int64_t, kBandSummaryBytes / 8> deltas{
      change.appended, change.live, change.append_records, change.delete_records};
  batch.add(key_of(kVolumeOwner, Kind::kBandSummary, band.value), deltas);
}

}  // namespace lazyfs::fs
