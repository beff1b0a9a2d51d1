#include "fs/file/map_change.h"

#include <algorithm>
#include <new>

#include "base/check.h"

namespace lazyfs::fs {

// ---- BandChanges --------------------------------------------------------------------------------

void BandChanges::appended(BandId band, std::uint32_t blocks, std::uint32_t live,
                           std::uint32_t records) {
  Change& change = changes_[band];
  change.appended += blocks;
  change.live += live;
  change.append_records += records;
}

void BandChanges::died(BandId band, std::uint32_t blocks, std::uint32_t records) {
  Change& change = changes_[band];
  change.died += blocks;
  change.delete_records += records;
}

void BandChanges::put_into(meta::Batch& batch) const {
  for (const auto& [band, c] : changes_) {
    add(batch, band,
        BandSummaryChange{c.appended, std::int64_t{c.live} - c.died, c.append_records,
                          c.delete_records});
  }
}

void BandChanges::account(data::BandTable& bands) const {
  for (const auto& [band, c] : changes_) {
    if (c.append_records > 0) bands.account_append(band, c.appended, c.live, c.append_records);
    if (c.delete_records > 0) bands.account_death(band, c.died, c.delete_records);
  }
}

// ---- MapChange ----------------------------------------------------------------------------------

// Loads the range's entries into before_ and after_, unless they were loaded already.
Result<> MapChange::load(std::uint64_t first, std::uint64_t count) {
  ASSIGN_OR_RETURN(auto entries, read_map(store_, inode_, first, count, false));
  for (MapEntry& entry : entries) {
    const auto [at, is_new] = before_.emplace(entry.file_block, std::move(entry.record));
    if (is_new) after_.insert(*at);
  }
  return ok();
}

// Notes that no file maps the piece any more.
void MapChange::drop(const MapEntry& piece) {
  blocks_delta_ -= piece.blocks();
  if (const auto* reference = std::get_if<ReferenceRecord>(&piece.record)) {
    ended_.push_back(*reference);
    return;
  }
  const auto& e = std::get<ExtentRecord>(piece.record);
  deaths_.emplace_back(
      e.at.band, DeleteRecord{inode_, piece.file_block, e.at.rba, e.blocks(), e.append_record});
  band_changes_.died(e.at.band, e.blocks(), 1);
}

void MapChange::put(MapEntry entry) {
  blocks_delta_ += entry.blocks();
  after_.emplace(entry.file_block, std::move(entry.record));
}

Result<> MapChange::unmap(std::uint64_t first, std::uint64_t count) {
  if (count == 0) return ok();
  TRY(load(first, count));
  const std::uint64_t end = first + std::min(count, meta::kMaxOffset - first);
  auto at = after_.lower_bound(first);
  if (at != after_.begin()) {
    const auto before = std::prev(at);
    if (before->first + blocks_of(before->second) > first) at = before;
  }
  while (at != after_.end() && at->first < end) {
    const MapEntry whole{at->first, std::move(at->second)};
    at = after_.erase(at);
    drop(clip_to(whole, first, end));
    if (whole.file_block < first) {
      MapEntry head = clip_to(whole, whole.file_block, first);
      after_.emplace(head.file_block, std::move(head.record));
    }
    if (whole.end() > end) {
      MapEntry rest = clip_to(whole, end, whole.end());
      after_.emplace(rest.file_block, std::move(rest.record));
    }
  }
  return ok();
}

Result<> MapChange::map(std::uint64_t file_block, const ExtentRecord& extent) {
  CHECK(extent.blocks() <= kMaxExtentBlocks);
  TRY(unmap(file_block, extent.blocks()));
  put({file_block, extent});
  appends_.push_back({extent.at,
                      {inode_, file_block, extent.blocks(), checksum_of(extent.crcs)},
                      extent.crcs});
  band_changes_.appended(extent.at.band, extent.blocks(), extent.blocks(), 1);
  return ok();
}

Result<> MapChange::refer(std::uint64_t file_block, const ReferenceRecord& reference) {
  TRY(unmap(file_block, reference.count));
  put({file_block, reference});
  return ok();
}

Result<> MapChange::give_away(const MappedExtent& extent) {
  TRY(load(extent.file_block, extent.extent.blocks()));
  const auto at = after_.find(extent.file_block);
  CHECK(at != after_.end() && at->second == MapRecord(extent.extent));
  after_.erase(at);
  blocks_delta_ -= extent.extent.blocks();
  return ok();
}

void MapChange::take_over(const MappedExtent& extent) { put({extent.file_block, extent.extent}); }

void MapChange::lost(BandAddress at, std::uint32_t blocks) {
  appends_.push_back({at, {InodeNo{0}, 0, blocks, 0}, {}});
  band_changes_.appended(at.band, blocks, 0, 1);
}

void MapChange::put_into(meta::Batch& batch) const {
  CHECK(ended_.empty());
  for (const auto& [block, record] : before_) {
    if (!after_.contains(block)) batch.erase(key_of(inode_, Kind::kExtent, block));
  }
  for (const auto& [block, record] : after_) {
    const auto was = before_.find(block);
    if (was == before_.end() || was->second != record) {
      batch.put(key_of(inode_, Kind::kExtent, block), encode(record));
    }
  }
  for (const auto& [at, record, crcs] : appends_) {
    batch.put(key_of(at.band, Kind::kAppendRecord, at.rba), encode(record));
    crcs.empty() ? batch.flush_first() : batch.brings(at, crcs);
  }
  for (const auto& [band, record] : deaths_) {
    batch.put(key_of(band, Kind::kDeleteRecord, record.rba), encode(record));
    batch.drops({band, record.rba}, record.blocks);
  }
  band_changes_.put_into(batch);
}

// If memory lacks, the end of the lease sets the band aside.
void lose_unrecorded(meta::Store& store, data::BandTable& bands, data::Lease& lease) try {
  const std::uint32_t blocks = lease.unrecorded();
  if (blocks == 0) return;
  MapChange change(store, InodeNo{0});
  change.lost(lease.first_unrecorded(), blocks);
  meta::Batch batch;
  change.put_into(batch);
  if (!store.apply(batch, meta::Reserve::kDelete)) return;
  change.account(bands);
  lease.recorded(blocks);
} catch (const std::bad_alloc&) {
  return;
}

}  // namespace lazyfs::fs
