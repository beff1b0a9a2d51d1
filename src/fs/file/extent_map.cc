#include "fs/file/extent_map.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kScanItems = 1024;

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

MapEntry clip_to(const MapEntry& entry, std::uint64_t first, std::uint64_t end) {
  const std::uint64_t from = std::max(first, entry.file_block);
  const std::uint64_t to = std::min(end, entry.end());
  return part_of(entry, static_cast<std::uint32_t>(from - entry.file_block),
                 static_cast<std::uint32_t>(to - from));
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
    const bool reaches_out = entry.file_block < first || entry.end() > end;
    entries.push_back(clip && reaches_out ? clip_to(entry, first, end) : std::move(entry));
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

}  // namespace lazyfs::fs
