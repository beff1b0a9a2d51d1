#include "fsck/check_extents.h"

#include <algorithm>

namespace lazyfs::fsck {

void ExtentCheck::begin(InodeNo inode, const std::optional<InodeRecord>& record) {
  inode_ = inode;
  type_ = record ? type_of(*record) : kRegularType;
  totals_ = {};
}

void ExtentCheck::item(const meta::Item& item) {
  const auto decoded = decode_map_record(item.value);
  const std::uint64_t file_block = item.key.offset;
  if (!decoded || file_block > blocks_for(kMaxFileBytes) - blocks_of(*decoded)) {
    return c_.bad_item(item.key);
  }
  const auto* extent = std::get_if<ExtentRecord>(&*decoded);
  if (file_block < totals_.end) {
    c_.problem("Inode {}: the {} at file block {} overlaps the one before it", inode_.value,
               extent ? "extent" : "reference", file_block);
  }
  totals_.blocks += blocks_of(*decoded);
  totals_.end = std::max(totals_.end, file_block + blocks_of(*decoded));
  if (file_block == 0) totals_.maps_first_block = true;
  if (!extent) return reference(std::get<ReferenceRecord>(*decoded));
  c_.report.extents += 1;
  if (check_place(file_block, *extent)) check_append_record(file_block, *extent);
  if (type_ == kSharedType) c_.report.shared_blocks += extent->blocks();
}

// Its target is compared when all references are known: check_shared_extents.cc.
void ExtentCheck::reference(const ReferenceRecord& reference) {
  c_.report.references += 1;
  c_.report.reference_blocks += reference.count;
  if (type_ == kRegularType) c_.references.add(reference);
}

// Whether the extent's blocks are written blocks of a data band, and of no other extent.
bool ExtentCheck::check_place(std::uint64_t file_block, const ExtentRecord& extent) {
  const std::uint32_t number = extent.at.band.value;
  const std::uint64_t end = std::uint64_t{extent.at.rba} + extent.blocks();
  BandFacts* band = c_.band(extent.at.band);
  if (!band) {
    c_.problem("Inode {}: the extent at file block {} lies in band {}, which does not exist",
               inode_.value, file_block, number);
    return false;
  }
  if (band->use != BandFacts::Use::kData) {
    c_.problem("Inode {}: the extent at file block {} lies in band {}, which holds {}",
               inode_.value, file_block, number, to_string(band->use));
    return false;
  }
  if (end > band->blocks || end > band->summary.appended) {
    c_.band_problem(
        extent.at.band,
        "Inode {}: the extent at file block {} reaches block {} of band {}, of which {} are "
        "appended",
        inode_.value, file_block, end, number, band->summary.appended);
    return false;
  }
  if (const auto twice = band->live.add(extent.at.rba, extent.blocks())) {
    c_.band_problem(
        extent.at.band,
        "Inode {}: block {} of band {}, in the extent at file block {}, belongs to another "
        "extent too",
        inode_.value, *twice, number, file_block);
  }
  c_.report.live_blocks += extent.blocks();
  return true;
}

const std::optional<AppendRecord>& ExtentCheck::append_record(BandAddress at) {
  if (at == cached_at_) return cached_;
  cached_at_ = at;
  cached_.reset();
  const auto value = c_.get(key_of(at.band, Kind::kAppendRecord, at.rba));
  if (!value) return cached_;
  const auto record = decode_append_record(*value);
  if (record) cached_ = *record;  // damage is reported when the band's log is read
  return cached_;
}

void ExtentCheck::check_append_record(std::uint64_t file_block, const ExtentRecord& extent) {
  const std::uint32_t band = extent.at.band.value;
  const auto& append = append_record({extent.at.band, extent.append_record});
  if (!append) {
    return c_.band_problem(
        extent.at.band,
        "Inode {}: the extent at file block {} names append record {} of band {}, "
        "which does not exist",
        inode_.value, file_block, extent.append_record, band);
  }
  const std::uint64_t skip = extent.at.rba - extent.append_record;
  if (append->inode != inode_ || append->file_block + skip != file_block ||
      skip + extent.blocks() > append->blocks) {
    return c_.band_problem(
        extent.at.band,
        "Inode {}: the extent at file block {} is not part of append record {} of "
        "band {}, which says inode {}, file block {}, {} blocks",
        inode_.value, file_block, extent.append_record, band, append->inode.value,
        append->file_block, append->blocks);
  }
  const bool whole = skip == 0 && extent.blocks() == append->blocks;
  if (whole && checksum_of(extent.crcs) != append->checksum) {
    c_.band_problem(
        extent.at.band,
        "Inode {}: the checksums of the extent at file block {} are not those of append "
        "record {} of band {}",
        inode_.value, file_block, extent.append_record, band);
  }
}

}  // namespace lazyfs::fsck
