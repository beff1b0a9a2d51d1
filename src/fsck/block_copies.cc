#include "fsck/block_copies.h"

#include <algorithm>
#include <utility>

#include "base/buffer.h"
#include "data/verified_read.h"

namespace lazyfs::fsck {

// On a device without write pointers only a band that nothing refers to can be written, after a
// reset. Extents that this repair has not accepted count as references too.
void BlockCopies::find_unused_bands() {
  std::vector<bool> is_used(c_.bands.size());
  const auto use = [&](std::uint64_t band) {
    if (band < is_used.size()) is_used[band] = true;
  };
  c_.visit(kFirstKey, kLastInodeKey, "", [&](const meta::Item& item) {
    if (item.key.kind != static_cast<std::uint8_t>(Kind::kExtent)) return;
    if (const auto extent = decode_extent(item.value)) use(extent->at.band.value);
  });
  c_.visit({kVolumeOwner + 1, 0, 0}, kLastKey, "",
           [&](const meta::Item& item) { use(item.key.owner - kBandOwnerBase); });
  for (std::uint32_t i = 0; i < c_.bands.size(); ++i) {
    BandFacts& band = c_.bands[i];
    const bool is_unused = !is_used[i] && band.summary.appended == 0 && band.live.count() == 0;
    if (!band.is_end_known && is_unused) band.device.write_pointer = 0;
  }
}

// Finds a place to append `blocks` blocks. Prefers bands that are partly written.
std::optional<BandAddress> BlockCopies::place_for(std::uint32_t blocks) {
  const bool keeps_pointers = c_.device.capabilities().keeps_write_pointers;
  if (!keeps_pointers && !std::exchange(knows_unused_bands_, true)) find_unused_bands();
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

// Appends a copy of the run to a band. The band's append log lacks the copy until it is rebuilt.
bool BlockCopies::append(InodeNo inode, const MappedExtent& run, std::span<const std::byte> bytes,
                         meta::Batch& batch) {
  const auto place = place_for(run.extent.blocks());
  if (!place) return false;
  BandFacts& band = *c_.band(place->band);
  if (!band.is_end_known && !c_.device.reset(place->band)) return false;
  band.is_end_known = true;
  if (!c_.device.append(*place, bytes)) return false;
  band.device.write_pointer = place->rba + run.extent.blocks();
  const ExtentRecord copied{*place, place->rba, run.extent.crcs};
  c_.add_extent(copied);
  batch.put(key_of(inode, Kind::kExtent, run.file_block), encode(copied));
  batch.flush_first();
  return true;
}

void BlockCopies::copy(InodeNo inode, const MappedExtent& whole, meta::Batch& batch) {
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
    if (readable && append(inode, fs::part_of(whole, begin, i - begin), run_bytes, batch)) {
      c_.repaired("Inode {}: it has copies of {} blocks from block {} on", inode.value, i - begin,
                  whole.file_block + begin);
      c_.repair.copied_blocks += i - begin;
    } else {
      uncopied_.push_back({inode, whole.file_block + begin, i - begin,
                           readable ? "belong to another extent, and there is no room to copy them"
                                    : "belong to another extent"});
    }
  }
}

void BlockCopies::copy_claimed() {
  for (const meta::Key& key : c_.claimed_twice) {
    const auto value = c_.get(key);
    const auto extent = value ? decode_extent(*value) : fail(Errc::kItemBad);
    if (!extent) continue;
    meta::Batch batch;
    batch.erase(key);
    copy(InodeNo{key.owner}, {key.offset, *extent}, batch);
    c_.apply(batch);
  }
}

void BlockCopies::report_lost() {
  for (const Uncopied& run : std::exchange(uncopied_, {})) report_unmapped(run);
}

void BlockCopies::report_unmapped(const Uncopied& run) {
  const InodeFacts* facts = c_.find_inode(run.inode);
  const bool is_shared = facts && facts->type == kSharedType && c_.is_target(run.inode);
  if (is_shared) return;  // files report what they refer to
  std::uint64_t at = run.file_block;
  const std::uint64_t first = at - std::min<std::uint64_t>(at, kMaxExtentBlocks - 1);
  const std::uint64_t end = at + run.blocks;
  const auto lost_to = [&](std::uint64_t to) {
    if (at < to) c_.lost_blocks(run.inode, at, to - at, run.why);
  };
  c_.visit(key_of(run.inode, Kind::kExtent, first), key_of(run.inode, Kind::kExtent, end - 1), "",
           [&](const meta::Item& item) {
             const auto record = decode_map_record(item.value);
             if (!record) return;
             lost_to(item.key.offset);
             at = std::max(at, item.key.offset + blocks_of(*record));
           });
  if (c_.good()) lost_to(end);
}

}  // namespace lazyfs::fsck
