#include "fs/extents.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kScanItems = 1024;

MappedExtent clip_to(MappedExtent extent, std::uint64_t first, std::uint64_t end) {
  const std::uint64_t from = std::max(first, extent.file_block);
  const std::uint64_t to = std::min(end, extent.end());
  return part_of(extent, static_cast<std::uint32_t>(from - extent.file_block),
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

Result<std::vector<MappedExtent>> read_extents(meta::Store& store, InodeNo inode,
                                               std::uint64_t first, std::uint64_t count,
                                               bool clip) {
  std::vector<MappedExtent> extents;
  if (count == 0) return extents;
  const std::uint64_t end = first + std::min(count, meta::kMaxOffset - first);
  const auto take = [&](const meta::Item& item) -> Result<> {
    auto record = decode_extent(item.value);
    if (!record) {
      log::error("inode {}: extent at block {} is damaged", inode.value, item.key.offset);
      return fail(record.error());
    }
    MappedExtent extent{item.key.offset, std::move(*record)};
    if (extent.end() <= first) return ok();
    extents.push_back(clip ? clip_to(std::move(extent), first, end) : std::move(extent));
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
  return extents;
}

Result<std::uint64_t> count_mapped(meta::Store& store, InodeNo inode, std::uint64_t first,
                                   std::uint64_t count) {
  ASSIGN_OR_RETURN(const auto extents, read_extents(store, inode, first, count));
  std::uint64_t blocks = 0;
  for (const MappedExtent& extent : extents) blocks += extent.extent.blocks();
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
  ASSIGN_OR_RETURN(auto extents, read_extents(store_, inode_, first, count, false));
  for (MappedExtent& extent : extents) {
    const auto [at, is_new] = before_.emplace(extent.file_block, std::move(extent.extent));
    if (is_new) after_.insert(*at);
  }
  return ok();
}

void MapChange::die(const MappedExtent& piece) {
  const ExtentRecord& e = piece.extent;
  deaths_.emplace_back(
      e.at.band, DeleteRecord{inode_, piece.file_block, e.at.rba, e.blocks(), e.append_record});
  band_changes_.died(e.at.band, e.blocks(), 1);
  blocks_delta_ -= e.blocks();
}

Result<> MapChange::unmap(std::uint64_t first, std::uint64_t count) {
  if (count == 0) return ok();
  TRY(load(first, count));
  const std::uint64_t end = first + std::min(count, meta::kMaxOffset - first);
  auto at = after_.lower_bound(first);
  if (at != after_.begin()) {
    const auto before = std::prev(at);
    if (before->first + before->second.blocks() > first) at = before;
  }
  while (at != after_.end() && at->first < end) {
    const MappedExtent whole{at->first, std::move(at->second)};
    at = after_.erase(at);
    die(clip_to(whole, first, end));
    if (whole.file_block < first) {
      MappedExtent head = clip_to(whole, whole.file_block, first);
      after_.emplace(head.file_block, std::move(head.extent));
    }
    if (whole.end() > end) {
      MappedExtent rest = clip_to(whole, end, whole.end());
      after_.emplace(rest.file_block, std::move(rest.extent));
    }
  }
  return ok();
}

Result<> MapChange::map(std::uint64_t file_block, const ExtentRecord& extent) {
  CHECK(extent.blocks() <= kMaxExtentBlocks);
  TRY(unmap(file_block, extent.blocks()));
  after_.emplace(file_block, extent);
  appends_.emplace_back(
      extent.at, AppendRecord{inode_, file_block, extent.blocks(), checksum_of(extent.crcs)});
  band_changes_.appended(extent.at.band, extent.blocks(), extent.blocks(), 1);
  blocks_delta_ += extent.blocks();
  return ok();
}

void MapChange::lost(BandAddress at, std::uint32_t blocks) {
  appends_.emplace_back(at, AppendRecord{InodeNo{0}, 0, blocks, 0});
  band_changes_.appended(at.band, blocks, 0, 1);
}

void MapChange::put_into(meta::Batch& batch) const {
  for (const auto& [block, extent] : before_) {
    if (!after_.contains(block)) batch.erase(key_of(inode_, Kind::kExtent, block));
  }
  for (const auto& [block, extent] : after_) {
    const auto was = before_.find(block);
    if (was == before_.end() || was->second != extent) {
      batch.put(key_of(inode_, Kind::kExtent, block), encode(extent));
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

}  // namespace lazyfs::fs
