#include "fsck/repair_extents.h"

#include <algorithm>

#include "base/buffer.h"
#include "data/appender.h"

namespace lazyfs::fsck {
namespace {

MapRecord part_of(const MapRecord& record, std::uint32_t skip, std::uint32_t blocks) {
  return fs::part_of(MapEntry{0, record}, skip, blocks).record;
}

std::string_view kind_of(const MapRecord& record) {
  return std::holds_alternative<ExtentRecord>(record) ? "extent" : "reference";
}

}  // namespace

// A shared-extent inode keeps blocks past its size: files read them.
void ExtentRepair::begin(InodeNo inode, const std::optional<InodeRecord>& record) {
  inode_ = inode;
  is_shared_ = record->mode == kSharedMode;
  const bool has_limit = !c_.orphan_work(inode) && !is_shared_ && !c_.is_target(inode);
  limit_ = blocks_for(has_limit ? record->size : kMaxFileBytes);
  mapped_to_ = 0;
  maps_first_block_ = false;
}

void ExtentRepair::lost(InodeNo inode, std::uint64_t file_block, std::uint32_t blocks,
                        std::string_view why) {
  c_.repaired("Inode {}: {} blocks from block {} on {}: they are lost, and read as zeros",
              inode.value, blocks, file_block, why);
  c_.repair.lost_blocks += blocks;
}

// The part of an extent or a reference that does not lie past the file's end; nullopt when that
// is nothing. Of two that overlap, which no read can take together, the one that begins later
// stays; the other ends there.
std::optional<MapRecord> ExtentRepair::cut(std::uint64_t file_block, const MapRecord& record) {
  if (file_block < mapped_to_) {
    c_.repaired("Inode {}: the {} at file block {} overlapped the next one: truncated",
                inode_.value, kind_of(last_), last_block_);
    c_.put(key_of(inode_, Kind::kExtent, last_block_),
           encode(part_of(last_, 0, static_cast<std::uint32_t>(file_block - last_block_))));
  }
  if (file_block + blocks_of(record) <= limit_) return record;
  c_.repaired("Inode {}: the {} at file block {} lay past the end: truncated", inode_.value,
              kind_of(record), file_block);
  const meta::Key key = key_of(inode_, Kind::kExtent, file_block);
  if (file_block >= limit_) {
    c_.erase(key);
    return std::nullopt;
  }
  MapRecord rest = part_of(record, 0, static_cast<std::uint32_t>(limit_ - file_block));
  c_.put(key, encode(rest));
  return rest;
}

void ExtentRepair::item(const meta::Item& item) {
  const std::uint64_t file_block = item.key.offset;
  const auto decoded = decode_map_record(item.value);
  if (!decoded || file_block > blocks_for(kMaxFileBytes) - blocks_of(*decoded)) {
    return c_.bad_item(item.key);
  }
  const auto* extent = std::get_if<ExtentRecord>(&*decoded);
  if (extent && !is_readable(file_block, *extent)) return;
  auto left = cut(file_block, *decoded);
  if (!left) return;
  mapped_to_ = file_block + blocks_of(*left);
  maps_first_block_ |= file_block == 0;
  last_block_ = file_block;
  last_ = std::move(*left);
  extent = std::get_if<ExtentRecord>(&last_);
  if (!extent) return;
  if (is_confirmed(file_block, *extent) && is_free(*extent)) {
    accept(*extent);
  } else {
    doubtful_.push_back({inode_, file_block});
  }
}

// Removes an extent that is not. Files that refer to it are repaired, and reported, later.
bool ExtentRepair::is_readable(std::uint64_t file_block, const ExtentRecord& extent) {
  const std::uint64_t end = std::uint64_t{extent.at.rba} + extent.blocks();
  if (end <= c_.readable_blocks(extent.at.band)) return true;
  c_.erase(key_of(inode_, Kind::kExtent, file_block));
  if (is_shared_) {
    c_.repaired("Shared-extent inode {}: the extent at block {} lay where no file data can be: "
                "removed",
                inode_.value, file_block);
  } else {
    lost(inode_, file_block, extent.blocks(), "lay where no file data can be");
  }
  return false;
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

// Where so many blocks can be appended: bands that are begun before others.
std::optional<BandAddress> ExtentRepair::place_for(std::uint32_t blocks) {
  std::optional<BandAddress> place;
  for (std::uint32_t i = 0; i < c_.bands.size(); ++i) {
    const BandFacts& band = c_.bands[i];
    const bool writable = band.use == BandFacts::Use::kData &&
                          band.device.condition != device::BandCondition::kReadOnly &&
                          band.device.condition != device::BandCondition::kOffline &&
                          band.device.kind == device::BandKind::kShingled;
    const std::uint32_t end = band.device.write_pointer;
    if (!writable || end > band.blocks || band.blocks - end < blocks) continue;
    if (!place || (place->rba == 0 && end > 0)) place = BandAddress{BandId{i}, end};
  }
  return place;
}

// The band's append log disagrees with the copy, and is rebuilt later.
bool ExtentRepair::append_copy(const MappedExtent& run, std::span<const std::byte> bytes,
                               meta::Batch& batch) {
  const auto place = place_for(run.extent.blocks());
  if (!place || !c_.device.append(*place, bytes)) return false;
  BandFacts& band = *c_.band(place->band);
  band.device.write_pointer = place->rba + run.extent.blocks();
  band.live.add(place->rba, run.extent.blocks());
  batch.put(key_of(inode_, Kind::kExtent, run.file_block),
            encode(ExtentRecord{*place, place->rba, run.extent.crcs}));
  return true;
}

void ExtentRepair::copy(InodeNo inode, const MappedExtent& whole, meta::Batch& batch) {
  inode_ = inode;
  const ExtentRecord& extent = whole.extent;
  AlignedBuffer bytes(std::size_t{extent.blocks()} * kBlockBytes);
  const auto is_readable = [&](std::uint32_t i) {
    return data::read_verified(c_.device, {extent.at.band, extent.at.rba + i},
                               std::span(extent.crcs).subspan(i, 1),
                               bytes.span().subspan(std::size_t{i} * kBlockBytes, kBlockBytes))
        .has_value();
  };
  for (std::uint32_t i = 0; i < extent.blocks();) {
    const std::uint32_t begin = i;
    const bool readable = is_readable(i++);
    while (i < extent.blocks() && is_readable(i) == readable) ++i;
    const std::span run_bytes = bytes.span().subspan(std::size_t{begin} * kBlockBytes,
                                                     std::size_t{i - begin} * kBlockBytes);
    if (readable && append_copy(fs::part_of(whole, begin, i - begin), run_bytes, batch)) {
      c_.repaired("Inode {}: {} blocks from block {} on belong to another extent too: copied",
                  inode_.value, i - begin, whole.file_block + begin);
      c_.repair.copied_blocks += i - begin;
    } else {
      lost(inode_, whole.file_block + begin, i - begin,
           readable ? "belong to another extent, and there is no room to copy them"
                    : "belong to another extent");
    }
  }
}

// An extent of which another one has blocks gets copies.
void ExtentRepair::finish() {
  for (const Doubtful& doubtful : doubtful_) {
    const auto value = c_.get(key_of(doubtful.inode, Kind::kExtent, doubtful.file_block));
    const auto extent = value ? decode_extent(*value) : fail(Errc::kItemBad);
    if (!extent) continue;
    if (is_free(*extent)) {
      accept(*extent);
    } else {
      meta::Batch batch;
      batch.erase(key_of(doubtful.inode, Kind::kExtent, doubtful.file_block));
      copy(doubtful.inode, {doubtful.file_block, *extent}, batch);
      c_.apply(batch);
    }
  }
  doubtful_.clear();
}

}  // namespace lazyfs::fsck
