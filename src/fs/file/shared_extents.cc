#include "fs/file/shared_extents.h"

#include <algorithm>

#include "base/log.h"

namespace lazyfs::fs {

Errc missing_from(const ReferenceRecord& reference, std::string_view what) {
  log::error("shared extents of inode {}: {} for blocks from {} on, which are referred to",
             reference.shared.value, what, reference.block);
  return Errc::kItemBad;
}

Result<SharedExtents::Counts> SharedExtents::read_counts(InodeNo inode, std::uint64_t first,
                                                         std::uint64_t blocks) {
  const std::uint64_t lowest = first - std::min<std::uint64_t>(first, kMaxExtentBlocks - 1);
  const std::size_t most = first - lowest + blocks;  // each count is of a block at least
  ASSIGN_OR_RETURN(const auto items,
                   store_.scan(key_of(inode, Kind::kReferenceCount, lowest),
                               key_of(inode, Kind::kReferenceCount, first + blocks - 1), most));
  Counts counts;
  for (const meta::Item& item : items) {
    ASSIGN_OR_RETURN(const ReferenceCountRecord record, decode_reference_count(item.value));
    if (item.key.offset + record.blocks > first) counts.emplace(item.key.offset, record);
  }
  return counts;
}

Result<InodeRef> SharedExtents::find(InodeNo number) {
  ASSIGN_OR_RETURN(const auto value, store_.get(key_of(number, Kind::kInode)));
  const auto record = value ? decode_inode(*value) : fail(Errc::kItemBad);
  if (!record || record->mode != kSharedMode) return fail(Errc::kItemBad);
  auto inode = inodes_.get(number);
  if (!inode && inode.error() == Errc::kStale) return fail(Errc::kItemBad);
  return inode;
}

Result<std::vector<SharedExtents::Piece>> SharedExtents::resolve(std::uint64_t file_block,
                                                                 const ReferenceRecord& reference,
                                                                 data::BandTable& bands) {
  const auto inode = find(reference.shared);
  if (!inode && inode.error() != Errc::kItemBad) return fail(inode.error());
  if (!inode) return fail(missing_from(reference, "no shared-extent inode"));
  ReaderLock lock((*inode)->mu);
  ASSIGN_OR_RETURN(auto extents,
                   read_extents(store_, reference.shared, reference.block, reference.count));
  std::vector<Piece> pieces;
  std::uint64_t next = reference.block;
  for (MappedExtent& extent : extents) {
    if (extent.file_block != next) break;
    next = extent.end();
    const BandId band = extent.extent.at.band;
    if (band.value >= bands.band_count()) return fail(Errc::kItemBad);
    extent.file_block = file_block + (extent.file_block - reference.block);
    pieces.push_back({std::move(extent), bands.pin(band)});
  }
  if (next != reference.block + reference.count) return fail(missing_from(reference, "no extent"));
  return pieces;
}

Result<std::uint64_t> SharedExtents::count_exclusive(const ReferenceRecord& reference) {
  ASSIGN_OR_RETURN(const Counts counts,
                   read_counts(reference.shared, reference.block, reference.count));
  std::uint64_t blocks = 0;
  for (const auto& [first, record] : counts) {
    if (record.references > 1) continue;
    const std::uint64_t begin = std::max(first, reference.block);
    blocks += std::min(first + record.blocks, reference.block + reference.count) - begin;
  }
  return blocks;
}

}  // namespace lazyfs::fs
