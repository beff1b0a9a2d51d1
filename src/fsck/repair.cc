#include "fsck/repair.h"

#include "fsck/passes.h"

namespace lazyfs::fsck {
namespace {

void forget_lost_ranges(Context& c) {
  c.visit_kind(kVolumeOwner, Kind::kLostRange, [&](const meta::Item& item) { c.erase(item.key); });
}

}  // namespace

// Only the run that finds the tree damaged knows what is lost. The ranges are durable no later than
// the tree without the damage, so that the next run finds them if this one is interrupted.
Result<> note_lost_ranges(meta::Store& store, const std::vector<meta::KeyRange>& lost) {
  std::uint64_t number = 0;
  ASSIGN_OR_RETURN(const auto last,
                   store.last_in(key_of(kVolumeOwner, Kind::kLostRange),
                                 key_of(kVolumeOwner, Kind::kLostRange, meta::kMaxOffset)));
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
      note_lost_ranges);
}

Result<RepairReport> repair(meta::Store& store, device::Device& device, Clock& clock,
                            const FindingListener& listener, const ProgressListener& progress) {
  Context c(Mode::kRepair, store, device, clock.now(), listener, progress);
  TRY(c.learn_bands());
  volume_items_pass(c);
  find_targets(c);
  inodes_pass(c);
  bands_pass(c);
  copy_claimed_blocks(c);
  salvage_extents(c);
  shared_extents_pass(c);
  names_pass(c);
  recount(c);
  rebuild_bands(c);
  counters_pass(c);
  forget_lost_ranges(c);
  if (c.error()) return fail(*c.error());
  TRY(store.commit());
  return c.repair;
}

}  // namespace lazyfs::fsck
