#include "gc/failed_bands.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace lazyfs::gc {
namespace {

bool is_written(data::BandState state) {
  return state == data::BandState::kOpen || state == data::BandState::kFull;
}

}  // namespace

// After an error, or if the rest would begin the last free band (false), the band counts as not
// tried.
Result<bool> FailedBands::move(BandId band) {
  const auto moved = mover_.move_all(band);
  if (!moved || !*moved) mover_.forget_unreadable(band);
  return moved;
}

// Bands that are not reached, those that another thread appends to now, and those that would take
// room of the reserve, continue to wait.
Result<> FailedBands::move_unreadable_bands() {
  for (const BandId band : bands_.take_unreadable()) waiting_.insert(band);
  Result<bool> done = true;
  for (const BandId band : std::exchange(waiting_, {})) {
    const data::BandView view = bands_.view(band);
    const bool is_bad = view.state == data::BandState::kBad;
    if (view.counters.live == 0 || (!is_bad && !is_written(view.state))) continue;
    if (!is_bad && mover_.has_unreadable(band)) continue;  // the collector is cleaning it
    if (!done || !bands_.has_reserve() || (!is_bad && !mover_.seal(band))) {
      waiting_.insert(band);
      continue;
    }
    log::warn("band {}: cannot be read everywhere: its data is moved", band.value);
    done = move(band);
    if (done && *done) {
      mover_.set_aside_if_unreadable(band);
    } else {
      waiting_.insert(band);
    }
  }
  TRY(done);
  return ok();
}

// A band that becomes free gives back the room that its blocks take. A band that is given up does
// not.
bool FailedBands::has_room_to_move(const data::BandView& bad) {
  if (mover_.would_begin_last_band()) return false;
  if (bad.is_given_up) return bands_.has_reserve();
  return !must_read_first() || !set_aside_if_unreadable(bad.band);
}

Result<> FailedBands::move_bad_bands() {
  for (const data::BandView& band : bands_.bad_bands()) {
    const bool is_done = band.counters.live == 0 || mover_.has_unreadable(band.band);
    if (is_done || waiting_.contains(band.band) || !has_room_to_move(band)) continue;
    log::warn("band {}: set aside: {} blocks are moved out of it", band.band.value,
              band.counters.live);
    TRY(move(band.band));
  }
  return ok();
}

bool FailedBands::set_aside_if_unreadable(BandId band) {
  if (mover_.can_read(band) || !mover_.set_aside_if_unreadable(band)) return false;
  if (!mover_.damaged().contains(band)) waiting_.insert(band);
  return true;
}

bool FailedBands::must_read_first() const {
  return !bands_.has_reserve() && (!waiting_.empty() || mover_.knows_unreadable());
}

// Bands that can be read now are moved like other bad bands.
void FailedBands::look_again() {
  const auto now = clock_.monotonic();
  if (mover_.damaged().empty() && waiting_.empty()) {
    look_pause_ = kFirstLook;
    look_at_ = now + look_pause_;
  }
  if (now < look_at_) return;
  for (const data::BandView& band : bands_.bad_bands()) {
    if (waiting_.contains(band.band)) {
      mover_.forget_unreadable(band.band);
      if (mover_.can_read(band.band)) waiting_.erase(band.band);
    } else if (mover_.damaged().contains(band.band) && !mover_.examine(band.band)) {
      mover_.forget_unreadable(band.band);
    }
  }
  look_pause_ = std::min(2 * look_pause_, kLongestLook);
  look_at_ = now + look_pause_;
}

Result<> FailedBands::move_live_blocks() {
  look_again();
  TRY(move_unreadable_bands());
  return move_bad_bands();
}

// Resets empty bands first, because moving needs room.
Result<> FailedBands::evacuate_now() {
  TRY(resetter_.reset_failed_bands());
  TRY(move_live_blocks());
  TRY(resetter_.reset_failed_bands());
  return ok();
}

bool FailedBands::has_bad_suspects() const {
  return std::ranges::any_of(bands_.bad_bands(), &data::BandView::is_suspect);
}

Result<> FailedBands::evacuate() {
  if (port_.has_failed() || clock_.monotonic() < not_before_) return ok();
  const auto done = evacuate_now();
  if (done && !has_bad_suspects()) {
    pause_ = kFirstPause;
  } else {
    not_before_ = clock_.monotonic() + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
  }
  return done;
}

}  // namespace lazyfs::gc
