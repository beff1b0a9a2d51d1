// Items of the volume: counters, the orphan list, and the lost ranges that an unfinished repair has
// recorded.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "fs/item/fields.h"
#include "meta/tree/batch.h"
#include "meta/tree/key.h"

namespace lazyfs::fs {

struct CounterRecord {
  std::uint64_t next_inode = 2;   // no inode at or above it has been given out
  std::uint64_t user_blocks = 0;  // data blocks written for users since mkfs (write amplification)
  std::uint64_t collector_blocks = 0;  // data blocks written by the garbage collector
  std::uint64_t inodes = 0;            // that exist, without shared-extent inodes
  std::array<std::byte, 32> room{};
  friend bool operator==(const CounterRecord&, const CounterRecord&) = default;
};
template <class Fields, FieldsOf<CounterRecord> Record>
void list_fields(Fields& fields, Record& record) {
  fields("next inode", record.next_inode);
  fields("user blocks written", record.user_blocks);
  fields("collector blocks written", record.collector_blocks);
  fields("inodes", record.inodes);
  fields.room(record.room);
}
inline constexpr std::size_t kCounterBytes = 64;
std::array<std::byte, kCounterBytes> encode(const CounterRecord& record);
Result<CounterRecord> decode_counters(std::span<const std::byte> from);
// What a batch adds to the counters; the room stays as it is.
struct CounterChange {
  std::uint64_t next_inode = 0;
  std::uint64_t user_blocks = 0;
  std::uint64_t collector_blocks = 0;
  std::int64_t inodes = 0;
};
void add(meta::Batch& batch, const CounterChange& change);

// Work on an inode that a mount finishes after a crash. kDelete: the inode has no name and is to be
// deleted. kTruncate: blocks past the end of the file are to be freed.
struct OrphanRecord {
  enum class Work : std::uint8_t { kDelete = 1, kTruncate = 2 };
  Work work = Work::kDelete;
  friend bool operator==(const OrphanRecord&, const OrphanRecord&) = default;
};
template <class Fields, FieldsOf<OrphanRecord> Record>
void list_fields(Fields& fields, Record& record) {
  fields("work", record.work);
  fields.reserved(7);
}
inline constexpr std::size_t kOrphanBytes = 8;
std::array<std::byte, kOrphanBytes> encode(const OrphanRecord& record);
Result<OrphanRecord> decode_orphan(std::span<const std::byte> from);

// A range of keys whose items are lost, recorded by a repair that has not ended: first <= key <
// end. Without `end` the range has no upper limit.
struct LostRangeRecord {
  meta::Key first;
  std::optional<meta::Key> end;
  friend bool operator==(const LostRangeRecord&, const LostRangeRecord&) = default;
};
// LostRangeRecord as it is encoded. `end` is all 0 if there is none.
struct LostRangeFields {
  meta::Key first, end;
  std::uint8_t has_end = 0;
};
template <class Fields, FieldsOf<LostRangeFields> Record>
void list_fields(Fields& fields, Record& record) {
  fields("first key", record.first);
  fields("end key", record.end);
  fields("whether there is an end", record.has_end);
  fields.reserved(5);
}
inline constexpr std::size_t kLostRangeBytes = 40;
std::array<std::byte, kLostRangeBytes> encode(const LostRangeRecord& record);
Result<LostRangeRecord> decode_lost_range(std::span<const std::byte> from);

}  // namespace lazyfs::fs
