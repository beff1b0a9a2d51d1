// Bands that fail (fs/space/collector.h): what can be read is moved out of them.
#include <chrono>

#include "base/log.h"
#include "fs/space/collector.h"

namespace lazyfs::fs {

// What stayed in a band because it could not be read keeps the band from ever being reset.
void Collector::set_aside_if_unreadable(BandId band) {
  if (!unmovable_.contains(band)) return;
  const std::uint64_t left = core_.bands.view(band).counters.live;
  if (left == 0) return;
  log::error("band {}: set aside: {} of its blocks cannot be read; all others were moved",
             band.value, left);
  core_.bands.set_bad(band, false);
}

// Bands that failed while they were written, and are empty by now. Returns how many are free again.
Result<std::size_t> Collector::begin_second_lives() {
  std::vector<BandId> empty;
  for (const data::BandView& band : core_.bands.bad_bands()) {
    if (band.counters.live == 0 && !band.is_given_up) empty.push_back(band.band);
  }
  if (empty.empty()) return 0;
  TRY(core_.store.commit());  // rule 2
  std::size_t count = 0;
  for (const BandId band : empty) {
    if (!core_.bands.begin_second_life(band) || !reset_band(band)) continue;
    log::info("band {}: reset after it failed, to be tried again", band.value);
    ++count;
  }
  return count;
}

Result<> Collector::move_out_of_failed_bands() {
  for (const BandId band : core_.bands.take_unreadable()) {
    if (unmovable_.contains(band) || !core_.bands.seal(band)) continue;
    log::warn("band {}: cannot be read everywhere: its data is moved", band.value);
    TRY(evacuate(band));
    set_aside_if_unreadable(band);
  }
  for (const data::BandView& band : core_.bands.bad_bands()) {
    if (band.counters.live == 0 || unmovable_.contains(band.band)) continue;
    log::warn("band {}: set aside: {} blocks are moved out of it", band.band.value,
              band.counters.live);
    TRY(evacuate(band.band));
  }
  return ok();
}

// Those that are empty first: what is moved needs room.
Result<> Collector::tend_failed_bands() {
  constexpr auto kPauseAfterFailure = std::chrono::seconds(1);
  MutexLock lock(work_mu_);
  if (core_.store.failed() || core_.clock.monotonic() < tend_again_) return ok();
  TRY(begin_second_lives());
  const auto moved = move_out_of_failed_bands();
  if (!moved) tend_again_ = core_.clock.monotonic() + kPauseAfterFailure;
  TRY(moved);
  TRY(begin_second_lives());
  return ok();
}

}  // namespace lazyfs::fs
