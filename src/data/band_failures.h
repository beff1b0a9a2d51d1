// Which bands have failed, and how often.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "base/types.h"

namespace lazyfs::data {

// A strike is an append or a reset that failed because of the band, not for another reason. A band
// with kMaxStrikes is given up: it is not written again before the next mount, which begins to
// count from 0.
//
// Not thread-safe.
class BandFailures {
 public:
  explicit BandFailures(std::size_t bands) : strikes_(bands) {}

  // REQUIRES: as many bands as there are, or more.
  void set_band_count(std::size_t bands) { strikes_.resize(bands); }

  void strike(BandId band) { ++strikes_.at(band.value); }
  void give_up(BandId band) { strikes_.at(band.value) = kMaxStrikes; }
  bool is_given_up(BandId band) const { return strikes_.at(band.value) >= kMaxStrikes; }

  // Bands of which the device could not read a block; each is taken once.
  void note_unreadable(BandId band) { unreadable_.insert(band); }
  std::vector<BandId> take_unreadable() {
    const std::set<BandId> taken = std::exchange(unreadable_, {});
    return {taken.begin(), taken.end()};
  }

 private:
  static constexpr std::uint8_t kMaxStrikes = 3;

  std::vector<std::uint8_t> strikes_;  // by band, since the mount
  std::set<BandId> unreadable_;
};

}  // namespace lazyfs::data
