#include "fs/repair_extents.h"

#include <algorithm>

namespace lazyfs::fs {

void ExtentRepair::begin(InodeNo inode, const InodeRecord& record) {
  inode_ = inode;
  const auto orphan = std::ranges::lower_bound(c_.orphans, inode, {}, &OrphanFacts::inode);
  const bool is_orphan = orphan != c_.orphans.end() && orphan->inode == inode;
  limit_ = blocks_for(is_orphan ? kMaxFileBytes : record.size);
  mapped_to_ = 0;
  cut_at_ = ~std::uint64_t{0};
  maps_first_block_ = false;
}

void ExtentRepair::drop(InodeNo inode, std::uint64_t file_block, std::uint32_t blocks,
                        std::string_view why) {
  c_.tell("Inode {}: {} blocks from block {} on {}: they are lost, and read as zeros.", inode.value,
          blocks, file_block, why);
  c_.report.lost_blocks += blocks;
  c_.erase(key_of(inode, Kind::kExtent, file_block));
}

// The part of the extent that neither overlaps the one before nor lies behind the file's end;
// nullopt when that is nothing. The item is changed accordingly.
std::optional<ExtentRecord> ExtentRepair::cut(std::uint64_t file_block,
                                              const ExtentRecord& extent) {
  const std::uint64_t begin = std::max(file_block, mapped_to_);
  const std::uint64_t end = std::min(file_block + extent.blocks(), limit_);
  if (begin == file_block && end == file_block + extent.blocks()) return extent;
  c_.tell("Inode {}: the extent at file block {} overlapped another or lay behind the end: cut.",
          inode_.value, file_block);
  c_.erase(key_of(inode_, Kind::kExtent, file_block));
  const meta::Key key = key_of(inode_, Kind::kExtent, begin);
  if (begin >= end || (begin != file_block && c_.get(key))) return std::nullopt;
  cut_at_ = begin;
  const auto skip = static_cast<std::uint32_t>(begin - file_block);
  ExtentRecord rest = extent;
  rest.at.rba += skip;
  rest.crcs.assign(extent.crcs.begin() + skip,
                   extent.crcs.begin() + static_cast<std::ptrdiff_t>(end - file_block));
  c_.put(key, encode(rest));
  return rest;
}

void ExtentRepair::item(const meta::Item& item) {
  if (item.key.offset == cut_at_) return;  // this is what cut() has left of the one before
  const auto decoded = decode_extent(item.value);
  if (!decoded || item.key.offset > blocks_for(kMaxFileBytes) - decoded->blocks()) {
    c_.tell("Inode {}: the extent at file block {} held impossible values: removed.", inode_.value,
            item.key.offset);
    return c_.erase(item.key);
  }
  const auto extent = cut(item.key.offset, *decoded);
  if (!extent) return;
  const std::uint64_t file_block = std::max(item.key.offset, mapped_to_);
  const std::uint64_t end = std::uint64_t{extent->at.rba} + extent->blocks();
  if (end > c_.readable_blocks(extent->at.band)) {
    return drop(inode_, file_block, extent->blocks(), "lay where no file data can be");
  }
  mapped_to_ = file_block + extent->blocks();
  maps_first_block_ |= file_block == 0;
  if (is_confirmed(file_block, *extent) && is_free(*extent)) {
    accept(*extent);
  } else {
    doubtful_.push_back({inode_, file_block});
  }
}

bool ExtentRepair::is_confirmed(std::uint64_t file_block, const ExtentRecord& extent) {
  const auto value = c_.get(key_of(extent.at.band, Kind::kAppendRecord, extent.append_record));
  const auto append = value ? decode_append_record(*value) : fail(Errc::kItemBad);
  if (!append || extent.append_record > extent.at.rba) return false;
  const std::uint64_t skip = extent.at.rba - extent.append_record;
  return append->inode == inode_ && append->file_block + skip == file_block &&
         skip + extent.blocks() <= append->blocks;
}

bool ExtentRepair::is_free(const ExtentRecord& extent) {
  const BandFacts& band = *c_.band(extent.at.band);
  for (std::uint32_t i = 0; i < extent.blocks(); ++i) {
    if (band.live.has(extent.at.rba + i)) return false;
  }
  return true;
}

void ExtentRepair::accept(const ExtentRecord& extent) {
  c_.band(extent.at.band)->live.add(extent.at.rba, extent.blocks());
}

void ExtentRepair::finish() {
  for (const Doubtful& doubtful : doubtful_) {
    const auto value = c_.get(key_of(doubtful.inode, Kind::kExtent, doubtful.file_block));
    const auto extent = value ? decode_extent(*value) : fail(Errc::kItemBad);
    if (!extent) continue;
    if (is_free(*extent)) {
      accept(*extent);
    } else {
      drop(doubtful.inode, doubtful.file_block, extent->blocks(), "belong to another extent");
    }
  }
  doubtful_.clear();
}

}  // namespace lazyfs::fs
