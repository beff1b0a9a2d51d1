#include "fsck/repair.h"

#include <utility>

#include "base/size.h"
#include "fsck/block_copies.h"
#include "fsck/passes.h"

namespace lazyfs::fsck {
namespace {

void forget_lost_ranges(Context& c) {
  c.visit_kind(kVolumeOwner, Kind::kLostRange, [&](const meta::Item& item) { c.erase(item.key); });
}

// The data bands to which nothing was ever appended since their last reset.
Result<std::vector<BandId>> find_free_bands(meta::Store& store, const device::Geometry& geometry) {
  std::vector<bool> is_used(geometry.band_count());
  const auto use = [&](BandId band) {
    if (band.value < is_used.size()) is_used[band.value] = true;
  };
  for (const BandId band : store.superblock().super_bands) use(band);
  for (const BandId band : store.log_bands()) use(band);
  constexpr std::size_t kItemsAtOnce = 1000;
  meta::Key from = key_of(kVolumeOwner, Kind::kBandSummary);
  const meta::Key last = key_of(kVolumeOwner, Kind::kBandSummary, meta::kMaxOffset);
  for (bool more = true; more;) {
    ASSIGN_OR_RETURN(const auto items, store.scan(from, last, kItemsAtOnce));
    for (const meta::Item& item : items) {
      const auto summary = decode_band_summary(item.value);
      const bool is_empty = summary && summary->appended == 0;
      if (!is_empty && item.key.offset < is_used.size()) is_used[item.key.offset] = true;
      from.offset = item.key.offset + 1;
    }
    more = items.size() == kItemsAtOnce;
  }
  std::vector<BandId> free;
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    const bool is_shingled = geometry.band_kinds[i] == device::BandKind::kShingled;
    if (is_shingled && !is_used[i]) free.push_back(BandId{i});
  }
  return free;
}

Result<> outcome(const Context& c) { return c.error() ? fail(*c.error()) : ok(); }

// Everything but the bands' logs. Makes the list of losses complete.
Result<> mend_items(Context& c) {
  TRY(c.learn_bands());
  volume_items_pass(c);
  find_targets(c);
  inodes_pass(c);
  bands_pass(c);
  BlockCopies copies(c);
  copies.copy_claimed();
  salvage_extents(c);
  copies.report_lost();  // the append logs may have had the blocks
  shared_extents_pass(c);
  names_pass(c);
  recount(c);
  counters_pass(c);
  c.find_paths_of_losses();
  return outcome(c);
}

Result<> finish(Context& c) {
  rebuild_bands(c);  // it forgets the inodes
  forget_lost_ranges(c);
  TRY(outcome(c));
  return c.store.commit();
}

}  // namespace

std::string lost_parts(const Loss& loss) {
  if (loss.blocks == 0) return loss.other;
  const std::string zeros = size_text(loss.blocks * kBlockBytes) + ", which read as zeros";
  return loss.other.empty() ? zeros : zeros + "; " + loss.other;
}

// Only the run that finds the damage in the tree knows what is lost. The ranges become durable no
// later than the repaired tree, so that the next run finds them if this one is interrupted.
Result<> note_lost_ranges(meta::Store& store, const std::vector<meta::KeyRange>& lost) {
  std::uint64_t number = first_lost_range(store.superblock().session);
  ASSIGN_OR_RETURN(
      const auto last,
      store.last_in(key_of(kVolumeOwner, Kind::kLostRange, number),
                    key_of(kVolumeOwner, Kind::kLostRange, number + kLostRangesASession - 1)));
  if (last) number = last->key.offset + 1;
  for (const meta::KeyRange& range : lost) {
    meta::Batch batch;
    batch.put(key_of(kVolumeOwner, Kind::kLostRange, number++),
              encode(LostRangeRecord{range.first, range.end}));
    TRY(store.apply(batch, meta::Reserve::kDelete));
  }
  return ok();
}

Result<std::unique_ptr<meta::Store>> open_for_repair(device::Device& device,
                                                     const FindingListener& listener,
                                                     const meta::StoreOptions& options) {
  return meta::Store::repair(
      device, options, [&](const std::string& text) { listener("Metadata: " + text + "."); },
      note_lost_ranges,
      [&](meta::Store& store) { return find_free_bands(store, device.geometry()); });
}

RepairReport repair(meta::Store& store, device::Device& device, Clock& clock,
                    const FindingListener& listener, const ProgressListener& progress) {
  Context c(Mode::kRepair, store, device, clock.now(), listener, progress);
  c.repair.result = mend_items(c);
  if (c.repair.result) {
    c.repair.result = finish(c);
  } else {
    c.repair.losses.clear();
    c.repair.losses_counted = 0;
  }
  return std::move(c.repair);
}

}  // namespace lazyfs::fsck
