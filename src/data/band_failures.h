// Which bands have failed, how often, and whether the bands or the device are to blame.
#pragma once

#include <cstdint>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace lazyfs::data {

// What a failure says about the band that it happened to.
enum class Blame : std::uint8_t {
  kNone,     // nothing
  kDevice,   // the device is at fault: it has no space
  kSuspect,  // the band or the device is at fault
  kBand,     // the band is at fault
};

// The blame for an append or a reset that the device has failed.
constexpr Blame blame_for(Errc error) {
  if (error == Errc::kTooManyOpenBands) return Blame::kNone;
  return error == Errc::kDeviceNoSpace ? Blame::kDevice : Blame::kSuspect;
}

// An append or a reset that the device fails makes the band a suspect: the band may be bad, or the
// device fails as a whole for a while, for instance because its cable was pulled. The next append
// to another band that is recorded decides:
//   - one suspect: the band is to blame and gets a strike;
//   - several suspects, which failed one after the other: the device is to blame. Each suspect gets
//     an eighth of a strike only. So bad bands that fail in turn are not tried again for ever, and
//     no band is lost because the device fails now and then.
// A thin-provisioned device, or the filesystem of an image, may be full for a while. No band gets a
// strike for that.
// A band that is set aside and has kMaxStrikes is given up: it is not written again before the next
// mount, which begins to count from 0.
//
// Not thread-safe.
class BandFailures {
 public:
  explicit BandFailures(std::size_t bands) : eighths_(bands) {}

  // REQUIRES: as many bands as there are, or more.
  void set_band_count(std::size_t bands) { eighths_.resize(bands); }

  // If memory lacks, the band gets a strike at once.
  void blame(BandId band, Blame blame) noexcept {
    try {
      if (blame == Blame::kDevice) without_space_.insert(band);
      if (blame == Blame::kSuspect) suspects_.insert(band);
    } catch (const std::bad_alloc&) {
      blame = Blame::kBand;
    }
    if (blame == Blame::kBand) add(band, kStrike);
  }
  // Whether the band has failed since an append succeeded, and the device may be at fault.
  bool is_suspect(BandId band) const {
    return suspects_.contains(band) || without_space_.contains(band);
  }
  // An append to the band has succeeded and is recorded.
  void note_written(BandId band) {
    without_space_.clear();
    const bool is_band_to_blame = suspects_.size() == 1;
    for (const BandId suspect : std::exchange(suspects_, {})) {
      if (suspect != band) add(suspect, is_band_to_blame ? kStrike : 1);
    }
  }

  void give_up(BandId band) { eighths_.at(band.value) = kMaxStrikes * kStrike; }
  bool is_given_up(BandId band) const {
    return eighths_.at(band.value) >= kMaxStrikes * kStrike;
  }

  // A band that counted fewer live blocks than died.
  void doubt(BandId band) {
    doubtful_.insert(band);
    give_up(band);
  }
  bool is_doubtful(BandId band) const { return doubtful_.contains(band); }

  // Bands of which the device could not read a block; each is taken once.
  void note_unreadable(BandId band) { unreadable_.insert(band); }
  std::vector<BandId> take_unreadable() {
    const std::set<BandId> taken = std::exchange(unreadable_, {});
    return {taken.begin(), taken.end()};
  }

 private:
  static constexpr unsigned kMaxStrikes = 3, kStrike = 8;  // in eighths

  void add(BandId band, unsigned eighths) {
    if (!is_given_up(band)) eighths_.at(band.value) += eighths;
  }

  std::vector<unsigned> eighths_;  // of strikes, by band, since the mount
  std::set<BandId> suspects_, without_space_;  // since an append succeeded
  std::set<BandId> doubtful_, unreadable_;
};

}  // namespace lazyfs::data
