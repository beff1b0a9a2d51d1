#include "fs/file/extent_map.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "fs/file/shared_extents.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kScanItems = 1024;

MapEntry clip_to(const MapEntry& entry, std::uint64_t first, std::uint64_t end) {
  const std::uint64_t from = std::max(first, entry.file_block);
  const std::uint64_t to = std::min(end, entry.end());
  return part_of(entry, static_cast<std::uint32_t>(from - entry.file_block),
                 static_cast<std::uint32_t>(to - from));
}

}  // namespace

MappedExtent part_of(const MappedExtent& e, std::uint32_t skip, std::uint32_t blocks) {
  CHECK(skip + blocks <= e.extent.blocks());
  MappedExtent part;
  part.file_block = e.file_block + skip;
  part.extent.at = {e.extent.at.band, e.extent.at.rba + skip};
  part.extent.append_record = e.extent.append_record;
  part.extent.crcs.assign(e.extent.crcs.begin() + skip, e.extent.crcs.begin() + skip + blocks);
  return part;
}

MapEntry part_of(const MapEntry& entry, std::uint32_t skip, std::uint32_t blocks) {
  if (const auto* extent = std::get_if<ExtentRecord>(&entry.record)) {
    MappedExtent part = part_of(MappedExtent{entry.file_block, *extent}, skip, blocks);
    return {part.file_block, std::move(part.extent)};
  }
  const auto& reference = std::get<ReferenceRecord>(entry.record);
  CHECK(skip + blocks <= reference.count);
  return {entry.file_block + skip,
          ReferenceRecord{reference.shared, reference.block + skip, blocks}};
}

Result<std::vector<MapEntry>> read_map(meta::Store& store, InodeNo inode, std::uint64_t first,
                                       std::uint64_t count, bool clip) {
  std::vector<MapEntry> entries;
  if (count == 0) return entries;
  const std::uint64_t end = first + std::min(count, meta::kMaxOffset - first);
  std::uint64_t mapped_until = 0;
  const auto take = [&](const meta::Item& item) -> Result<> {
    auto record = decode_map_record(item.value);
    if (!record) {
      log::error("inode {}: extent at block {} is damaged", inode.value, item.key.offset);
      return fail(record.error());
    }
    MapEntry entry{item.key.offset, std::move(*record)};
    if (entry.end() <= first) return ok();
    if (entry.file_block < mapped_until) {
      log::error("inode {}: extents overlap at block {}", inode.value, entry.file_block);
      return fail(Errc::kItemBad);
    }
    mapped_until = entry.end();
    const bool cut = clip && (entry.file_block < first || entry.end() > end);
    entries.push_back(cut ? clip_to(entry, first, end) : std::move(entry));
    return ok();
  };
  // The extent that overlaps `first`, if any, is the last one that starts before it.
  if (first > 0) {
    const std::uint64_t lowest = first - std::min<std::uint64_t>(first, kMaxExtentBlocks - 1);
    ASSIGN_OR_RETURN(const auto before, store.last_in(key_of(inode, Kind::kExtent, lowest),
                                                      key_of(inode, Kind::kExtent, first - 1)));
    if (before) TRY(take(*before));
  }
  for (std::uint64_t from = first; from < end;) {
    ASSIGN_OR_RETURN(const auto items,
                     store.scan(key_of(inode, Kind::kExtent, from),
                                key_of(inode, Kind::kExtent, end - 1), kScanItems));
    for (const meta::Item& item : items) TRY(take(item));
    if (items.size() < kScanItems) break;
    from = items.back().key.offset + 1;
  }
  return entries;
}

Result<std::vector<MappedExtent>> read_extents(meta::Store& store, InodeNo inode,
                                               std::uint64_t first, std::uint64_t count) {
  ASSIGN_OR_RETURN(auto entries, read_map(store, inode, first, count));
  std::vector<MappedExtent> extents;
  extents.reserve(entries.size());
  for (MapEntry& entry : entries) {
    auto* extent = std::get_if<ExtentRecord>(&entry.record);
    if (extent) extents.push_back({entry.file_block, std::move(*extent)});
  }
  return extents;
}

Result<std::uint64_t> count_mapped(meta::Store& store, InodeNo inode, std::uint64_t first,
                                   std::uint64_t count) {
  ASSIGN_OR_RETURN(const auto entries, read_map(store, inode, first, count));
  std::uint64_t blocks = 0;
  for (const MapEntry& entry : entries) blocks += entry.blocks();
  return blocks;
}

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
    const std::int64_t deltas[] = {c.appended, std::int64_t{c.live} - c.died, c.append_records,
                                   c.delete_records};
    batch.add(key_of(kVolumeOwner, Kind::kBandSummary, band.value), deltas);
  }
}

void BandChanges::account(data::BandTable& bands) const {
  for (const auto& [band, c] : changes_) {
    if (c.append_records > 0) bands.account_append(band, c.appended, c.live, c.append_records);
    if (c.delete_records > 0) bands.account_death(band, c.died, c.delete_records);
  }
}

// ---- MapChange ----------------------------------------------------------------------------------

// Brings what the tree has in the range into before_ and after_, unless it is there already.
Result<> MapChange::load(std::uint64_t first, std::uint64_t count) {
  ASSIGN_OR_RETURN(auto entries, read_map(store_, inode_, first, count, false));
  for (MapEntry& entry : entries) {
    const auto [at, is_new] = before_.emplace(entry.file_block, std::move(entry.record));
    if (is_new) after_.insert(*at);
  }
  return ok();
}

// What nobody maps any more.
Result<> MapChange::die(const MapEntry& piece) {
  blocks_delta_ -= piece.blocks();
  if (const auto* reference = std::get_if<ReferenceRecord>(&piece.record)) {
    if (!shared_) return fail(Errc::kItemBad);
    return shared_->remove(*reference);
  }
  const auto& e = std::get<ExtentRecord>(piece.record);
  deaths_.emplace_back(
      e.at.band, DeleteRecord{inode_, piece.file_block, e.at.rba, e.blocks(), e.append_record});
  band_changes_.died(e.at.band, e.blocks(), 1);
  return ok();
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
    TRY(die(clip_to(whole, first, end)));
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
  appends_.emplace_back(
      extent.at, AppendRecord{inode_, file_block, extent.blocks(), checksum_of(extent.crcs)});
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
  appends_.emplace_back(at, AppendRecord{InodeNo{0}, 0, blocks, 0});
  band_changes_.appended(at.band, blocks, 0, 1);
}

void MapChange::put_into(meta::Batch& batch) const {
  for (const auto& [block, record] : before_) {
    if (!after_.contains(block)) batch.erase(key_of(inode_, Kind::kExtent, block));
  }
  for (const auto& [block, record] : after_) {
    const auto was = before_.find(block);
    if (was == before_.end() || was->second != record) {
      batch.put(key_of(inode_, Kind::kExtent, block), encode(record));
    }
  }
  for (const auto& [at, record] : appends_) {
    batch.put(key_of(at.band, Kind::kAppendRecord, at.rba), encode(record));
  }
  for (const auto& [band, record] : deaths_) {
    batch.put(key_of(band, Kind::kDeleteRecord, record.rba), encode(record));
  }
  band_changes_.put_into(batch);
}

void lose_unrecorded(meta::Store& store, data::BandTable& bands, data::Lease& lease) {
  const std::uint32_t blocks = lease.unrecorded();
  if (blocks == 0) return;
  MapChange change(store, InodeNo{0}, nullptr);
  change.lost(lease.first_unrecorded(), blocks);
  meta::Batch batch;
  change.put_into(batch);
  if (!store.apply(batch, meta::Reserve::kDelete)) return;
  change.account(bands);
  lease.recorded(blocks);
}

}  // namespace lazyfs::fs
