#include "gc/failed_bands.h"

#include "base/log.h"

namespace lazyfs::gc {

Result<> FailedBands::move_live_blocks() {
  for (const BandId band : bands_.take_unreadable()) {
    if (mover_.has_unreadable(band) || !mover_.seal(band)) continue;
    log::warn("band {}: cannot be read everywhere: its data is moved", band.value);
    TRY(mover_.move_all(band));
    mover_.set_aside_if_unreadable(band);
  }
  for (const data::BandView& band : bands_.bad_bands()) {
    if (band.counters.live == 0 || mover_.has_unreadable(band.band)) continue;
    log::warn("band {}: set aside: {} blocks are moved out of it", band.band.value,
              band.counters.live);
    TRY(mover_.move_all(band.band));
  }
  return ok();
}

// Bands that are empty come first: moving needs room.
Result<> FailedBands::evacuate() {
  constexpr auto kPauseAfterFailure = std::chrono::seconds(1);
  if (port_.has_failed() || clock_.monotonic() < not_before_) return ok();
  TRY(resetter_.reset_failed_bands());
  const auto moved = move_live_blocks();
  if (!moved) not_before_ = clock_.monotonic() + kPauseAfterFailure;
  TRY(moved);
  TRY(resetter_.reset_failed_bands());
  return ok();
}

}  // namespace lazyfs::gc
