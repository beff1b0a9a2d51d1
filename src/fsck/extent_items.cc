#include "fsck/extent_items.h"

#include <algorithm>

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
void ExtentItems::begin(InodeNo inode, const std::optional<InodeRecord>& record) {
  inode_ = inode;
  type_ = record ? type_of(*record) : kRegularType;
  const bool has_limit = record && !c_.orphan_work(inode) && type_ != kSharedType &&
                         !c_.is_target(inode);
  limit_ = blocks_for(has_limit ? record->size : kMaxFileBytes);
  totals_ = {};
  mapped_to_ = 0;
}

void ExtentItems::item(const meta::Item& item) {
  const std::uint64_t file_block = item.key.offset;
  auto decoded = decode_map_record(item.value);
  if (!decoded || file_block > blocks_for(kMaxFileBytes) - blocks_of(*decoded)) {
    return c_.bad_item(item.key);
  }
  const auto* extent = std::get_if<ExtentRecord>(&*decoded);
  if (extent) {
    c_.report.extents += 1;
    if (type_ == kSharedType) c_.report.shared_blocks += extent->blocks();
  }
  totals_.blocks += blocks_of(*decoded);
  totals_.end = std::max(totals_.end, file_block + blocks_of(*decoded));
  if (extent && !has_place(file_block, *extent)) return;
  if (file_block < mapped_to_) end_last_at(file_block, kind_of(*decoded));
  if (!extent) {  // its target is compared when all references are known: shared_extents.cc
    const ReferenceRecord& reference = std::get<ReferenceRecord>(*decoded);
    c_.report.references += 1;
    c_.report.reference_blocks += reference.count;
    if (counts_references() && file_block < limit_) {
      const auto count = std::min<std::uint64_t>(reference.count, limit_ - file_block);
      c_.references.add({reference.shared, reference.block, static_cast<std::uint32_t>(count)});
    }
  }
  mapped_to_ = file_block + blocks_of(*decoded);
  last_block_ = file_block;
  last_ = std::move(*decoded);
  if (const auto* placed = std::get_if<ExtentRecord>(&last_)) place(file_block, *placed);
  if (c_.repairs() && mapped_to_ > limit_) cut_last();
}

// Reads cannot handle entries that overlap. So the entry that begins later stays, and the earlier
// one is made to end there.
void ExtentItems::end_last_at(std::uint64_t file_block, std::string_view what) {
  const auto keep = static_cast<std::uint32_t>(file_block - last_block_);
  totals_.blocks -= mapped_to_ - file_block;
  if (std::holds_alternative<ReferenceRecord>(last_) && counts_references()) {
    const std::uint64_t end = std::min(mapped_to_, limit_);
    if (end > file_block) c_.references.shorten_newest(end - file_block);
  }
  if (const auto* extent = std::get_if<ExtentRecord>(&last_)) {
    const bool is_doubtful = !doubtful_.empty() && doubtful_.back().inode == inode_ &&
                             doubtful_.back().file_block == last_block_;
    if (is_doubtful) {
      doubtful_.back().blocks = keep;
    } else {
      c_.remove_blocks({extent->at.band, extent->at.rba + keep}, extent->blocks() - keep);
    }
  }
  if (c_.finding(Action::kCorrect, "Inode {}: the {} at file block {} overlaps the one before it",
                 inode_.value, what, file_block) &&
      last_block_ < limit_) {
    const auto blocks = std::min<std::uint64_t>(keep, limit_ - last_block_);
    c_.put(key_of(inode_, Kind::kExtent, last_block_),
           encode(part_of(last_, 0, static_cast<std::uint32_t>(blocks))));
  }
}

// Cuts the last entry at the file's end. (What lies past it is a finding of the inode.)
void ExtentItems::cut_last() {
  if (const auto* extent = std::get_if<ExtentRecord>(&last_)) c_.touch(extent->at.band);
  const meta::Key key = key_of(inode_, Kind::kExtent, last_block_);
  if (last_block_ >= limit_) return c_.erase(key);
  c_.put(key, encode(part_of(last_, 0, static_cast<std::uint32_t>(limit_ - last_block_))));
}

// ---- Extents and bands --------------------------------------------------------------------------

// Whether the extent's blocks are written blocks of a data band. A repair removes an extent for
// which this is not so; files that refer to it are repaired, and reported, later.
bool ExtentItems::has_place(std::uint64_t file_block, const ExtentRecord& extent) {
  const BandId id = extent.at.band;
  const std::uint64_t end = std::uint64_t{extent.at.rba} + extent.blocks();
  const BandFacts* band = c_.band(id);
  if (!band) {
    if (c_.finding(Action::kRemove,
                   "Inode {}: the extent at file block {} lies in band {}, which does not exist",
                   inode_.value, file_block, id.value)) {
      remove(file_block, extent);
    }
    return false;
  }
  if (band->use != BandFacts::Use::kData) {
    if (c_.finding(Action::kRemove,
                   "Inode {}: the extent at file block {} lies in band {}, which holds {}",
                   inode_.value, file_block, id.value, to_string(band->use))) {
      remove(file_block, extent);
    }
    return false;
  }
  const std::uint64_t written = c_.readable_blocks(id);
  const std::uint64_t appended = std::min<std::uint64_t>(written, band->summary.appended);
  if (end <= appended) return true;
  c_.touch(id);
  const bool is_written = end <= written;
  if (c_.finding(is_written ? Action::kRebuild : Action::kRemove,
                 "Inode {}: the extent at file block {} reaches block {} of band {}, of which {} "
                 "are appended",
                 inode_.value, file_block, end, id.value, appended) &&
      !is_written) {
    remove(file_block, extent);
  }
  return is_written;
}

// Where extents may be lost, the append logs may still have the blocks: LostParts reports those
// that salvage_extents() does not find.
void ExtentItems::remove(std::uint64_t file_block, const ExtentRecord& extent) {
  const meta::Key key = key_of(inode_, Kind::kExtent, file_block);
  c_.erase(key);
  if (type_ == kSharedType || lost_.overlap(key, key)) return;
  c_.lost_blocks(inode_, file_block, extent.blocks(), "lay where no file data can be");
}

void ExtentItems::place(std::uint64_t file_block, const ExtentRecord& extent) {
  if (is_confirmed(file_block, extent) && !first_taken(extent)) {
    c_.report.live_blocks += extent.blocks();
    c_.add_blocks(extent);
  } else {
    doubtful_.push_back({inode_, file_block, extent.blocks()});
  }
}

const std::optional<AppendRecord>& ExtentItems::append_record(BandAddress at) {
  if (at == cached_at_) return cached_;
  cached_at_ = at;
  cached_.reset();
  const auto value = c_.get(key_of(at.band, Kind::kAppendRecord, at.rba));
  if (!value) return cached_;
  const auto record = decode_append_record(*value);
  if (record) cached_ = *record;  // damage is reported when the band's log is read
  return cached_;
}

// Whether the append record that the extent names says where its blocks belong.
bool ExtentItems::is_confirmed(std::uint64_t file_block, const ExtentRecord& extent) {
  const BandId band = extent.at.band;
  const auto& append = append_record({band, extent.append_record});
  if (!append) {
    c_.band_finding(band,
                    "Inode {}: the extent at file block {} names append record {} of band {}, "
                    "which does not exist",
                    inode_.value, file_block, extent.append_record, band.value);
    return false;
  }
  const std::uint64_t skip = extent.at.rba - extent.append_record;
  if (append->inode != inode_ || append->file_block + skip != file_block ||
      skip + extent.blocks() > append->blocks) {
    c_.band_finding(band,
                    "Inode {}: the extent at file block {} is not part of append record {} of "
                    "band {}, which says inode {}, file block {}, {} blocks",
                    inode_.value, file_block, extent.append_record, band.value,
                    append->inode.value, append->file_block, append->blocks);
    return false;
  }
  const bool whole = skip == 0 && extent.blocks() == append->blocks;
  if (whole && checksum_of(extent.crcs) != append->checksum) {
    c_.band_finding(band,
                    "Inode {}: the checksums of the extent at file block {} are not those of "
                    "append record {} of band {}",
                    inode_.value, file_block, extent.append_record, band.value);
  }
  return true;
}

// The first block that another extent has.
std::optional<std::uint32_t> ExtentItems::first_taken(const ExtentRecord& extent) const {
  const BlockSet& live = c_.band(extent.at.band)->live;
  for (std::uint32_t i = 0; i < extent.blocks(); ++i) {
    if (live.has(extent.at.rba + i)) return extent.at.rba + i;
  }
  return std::nullopt;
}

// An extent of which another extent has blocks gets copies later, after the pass over the bands.
void ExtentItems::settle(const Doubtful& doubtful) {
  const auto value = c_.get(key_of(doubtful.inode, Kind::kExtent, doubtful.file_block));
  auto extent = value ? decode_extent(*value) : fail(Errc::kItemBad);
  if (!extent) return;
  if (extent->blocks() > doubtful.blocks) extent->crcs.resize(doubtful.blocks);  // cut before
  if (const auto taken = first_taken(*extent)) {
    c_.touch(extent->at.band);
    if (c_.finding(Action::kCopy,
                   "Inode {}: block {} of band {}, in the extent at file block {}, belongs to "
                   "another extent too",
                   doubtful.inode.value, *taken, extent->at.band.value, doubtful.file_block)) {
      c_.claimed_twice.push_back(key_of(doubtful.inode, Kind::kExtent, doubtful.file_block));
    }
  }
  c_.report.live_blocks += extent->blocks();
  c_.add_blocks(*extent);
}

void ExtentItems::finish() {
  for (const Doubtful& doubtful : doubtful_) settle(doubtful);
  doubtful_.clear();
}

}  // namespace lazyfs::fsck
