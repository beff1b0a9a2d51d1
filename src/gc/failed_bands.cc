#include "gc/failed_bands.h"

#include <algorithm>

#include "base/log.h"

namespace lazyfs::gc {
namespace {

bool is_written(data::BandState state) {
  return state == data::BandState::kOpen || state == data::BandState::kFull;
}

}  // namespace

// After an error the band is as if it had not been tried.
Result<> FailedBands::move(BandId band) {
  const auto moved = mover_.move_all(band);
  if (moved) return ok();
  mover_.forget_unreadable(band);
  bands_.note_unreadable(band);
  return moved;
}

// Bands that were not reached, and those that another thread appends to now, are noted again.
Result<> FailedBands::move_unreadable_bands() {
  Result<> done = ok();
  for (const BandId band : bands_.take_unreadable()) {
    if (mover_.has_unreadable(band)) continue;  // the collector is cleaning it
    const bool is_sealed = done && mover_.seal(band);
    if (!is_sealed) {
      if (is_written(bands_.view(band).state)) bands_.note_unreadable(band);
      continue;
    }
    log::warn("band {}: cannot be read everywhere: its data is moved", band.value);
    done = move(band);
    if (done) mover_.set_aside_if_unreadable(band);
  }
  return done;
}

Result<> FailedBands::move_bad_bands() {
  for (const data::BandView& band : bands_.bad_bands()) {
    if (band.counters.live == 0 || mover_.has_unreadable(band.band)) continue;
    log::warn("band {}: set aside: {} blocks are moved out of it", band.band.value,
              band.counters.live);
    TRY(move(band.band));
  }
  return ok();
}

// Those that can be read now are moved as any other bad band.
void FailedBands::look_again_at_damaged() {
  const auto now = clock_.monotonic();
  if (mover_.damaged().empty()) {
    look_pause_ = kFirstLook;
    look_at_ = now + look_pause_;
  }
  if (now < look_at_) return;
  for (const data::BandView& band : bands_.bad_bands()) {
    const bool may = mover_.damaged().contains(band.band) && !mover_.examine(band.band);
    if (may) mover_.forget_unreadable(band.band);
  }
  look_pause_ = std::min(2 * look_pause_, kLongestLook);
  look_at_ = now + look_pause_;
}

Result<> FailedBands::move_live_blocks() {
  look_again_at_damaged();
  TRY(move_unreadable_bands());
  return move_bad_bands();
}

// Bands that are empty come first: moving needs room.
Result<> FailedBands::evacuate_now() {
  TRY(resetter_.reset_failed_bands());
  TRY(move_live_blocks());
  TRY(resetter_.reset_failed_bands());
  return ok();
}

Result<> FailedBands::evacuate() {
  if (port_.has_failed() || clock_.monotonic() < not_before_) return ok();
  const auto done = evacuate_now();
  if (done) {
    pause_ = kFirstPause;
  } else {
    not_before_ = clock_.monotonic() + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
  }
  return done;
}

}  // namespace lazyfs::gc
