#include "fs/item/volume_items.h"

#include "fs/item/keys.h"

namespace lazyfs::fs {

std::array<std::byte, kCounterBytes> encode(const CounterRecord& record) {
  return encode_fields<kCounterBytes>(record);
}

Result<CounterRecord> decode_counters(std::span<const std::byte> from) {
  CounterRecord record;
  if (!decode_fields(from, record) || record.next_inode < 2 || record.next_inode > kMaxInode + 1) {
    return fail(Errc::kItemBad);
  }
  return record;
}

void add(meta::Batch& batch, const CounterChange& change) {
  const std::array<std::int64_t, kCounterBytes / 8> deltas{
      static_cast<std::int64_t>(change.next_inode), static_cast<std::int64_t>(change.user_blocks),
      static_cast<std::int64_t>(change.collector_blocks), change.inodes};
  batch.add(key_of(kVolumeOwner, Kind::kCounters), deltas);
}

std::array<std::byte, kOrphanBytes> encode(const OrphanRecord& record) {
  return encode_fields<kOrphanBytes>(record);
}

Result<OrphanRecord> decode_orphan(std::span<const std::byte> from) {
  OrphanRecord record;
  const bool good = decode_fields(from, record);
  const bool known =
      record.work == OrphanRecord::Work::kDelete || record.work == OrphanRecord::Work::kTruncate;
  if (!good || !known) return fail(Errc::kItemBad);
  return record;
}

std::array<std::byte, kLostRangeBytes> encode(const LostRangeRecord& record) {
  const auto has_end = static_cast<std::uint8_t>(record.end ? 1 : 0);
  return encode_fields<kLostRangeBytes>(
      LostRangeFields{record.first, record.end.value_or(meta::Key{}), has_end});
}

Result<LostRangeRecord> decode_lost_range(std::span<const std::byte> from) {
  LostRangeFields fields;
  if (!decode_fields(from, fields) || fields.has_end > 1 ||
      (fields.has_end == 0 && fields.end != meta::Key{})) {
    return fail(Errc::kItemBad);
  }
  LostRangeRecord record{fields.first, std::nullopt};
  if (fields.has_end == 1) record.end = fields.end;
  return record;
}

}  // namespace lazyfs::fs
