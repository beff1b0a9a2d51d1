#include "fs/volume/housekeeper.h"

#include "base/log.h"

namespace lazyfs::fs {
namespace {

constexpr auto kHousekeepingPeriod = std::chrono::milliseconds(500);
// Batches of deletion in one step. Then bands are reset and cleaned, even if more is to be deleted.
constexpr std::size_t kBatchesAStep = 64;
// Then a step deletes although users are busy.
constexpr auto kLongestWait = std::chrono::seconds(30);

}  // namespace

Housekeeper::Housekeeper(data::BandTable& bands, OrphanCleanup& orphans,
                         OrphanRecovery& recovery, gc::Collector& collector, gc::Pacer& pacer,
                         device::DiscardingDevice& disk, Clock& clock)
    : bands_(bands),
      orphans_(orphans),
      recovery_(recovery),
      collector_(collector),
      pacer_(pacer),
      disk_(disk),
      clock_(clock),
      last_deletion_(clock.monotonic()),
      thread_(kHousekeepingPeriod, [this](bool woken) { return step(woken); }) {}

void Housekeeper::run_due() {
  while (delete_some()) continue;  // each turn deletes inodes
  bool more = step(true);
  while (more && collector_.is_cleaning()) more = step(false);
  if (pacer_.is_quiet()) disk_.discard_ready();
}

bool Housekeeper::is_deletion_due(bool woken, gc::CleanPriority priority) const {
  return woken || pacer_.is_quiet() || priority != gc::CleanPriority::kNone ||
         clock_.monotonic() - last_deletion_ >= kLongestWait;
}

// Whether more is to be deleted.
bool Housekeeper::delete_some() {
  recovery_.step();
  return orphans_.run(kBatchesAStep) || recovery_.is_due();
}

// True when there is more to delete or to clean at once.
bool Housekeeper::step(bool woken) {
  const gc::CleanPriority priority = pacer_.priority();
  const auto evacuated = collector_.evacuate_failed_bands();
  if (!evacuated) log::error("moving data out of failed bands: {}", describe(evacuated.error()));
  const bool now = is_deletion_due(woken, priority);
  if (now) last_deletion_ = clock_.monotonic();
  const bool more_to_delete = now && delete_some();
  if (now && bands_.has_empty_bands()) {
    ignore_error(collector_.reset_empty_bands(), "logged, and tried again");
  }
  const bool is_urgent = priority == gc::CleanPriority::kHigh;
  // When it is urgent, writers wait for room, and will fill the bands at once. A step discards one
  // band, because the disk may let requests wait until it has discarded. While users are busy, the
  // next step comes a period later.
  const bool more_to_discard = !is_urgent && disk_.discard_one() && pacer_.is_quiet();
  const bool more = more_to_delete || more_to_discard;
  if (!is_urgent && !pacer_.is_idle_cleaning_due()) return more;
  // One unit: then priority and idleness are looked at again.
  const auto cleaned = collector_.clean_unit({.with_open = is_urgent});
  if (!cleaned) log::error("cleaning failed: {}", describe(cleaned.error()));
  return more || (cleaned && *cleaned);
}

}  // namespace lazyfs::fs
