// Moves what can be read out of bands that failed, and of bands that the device could not read
// everywhere.
#pragma once

#include <chrono>

#include "base/clock.h"
#include "base/result.h"
#include "data/band_table.h"
#include "gc/band_mover.h"
#include "gc/band_resetter.h"
#include "gc/port.h"

namespace lazyfs::gc {

// Blocks that cannot be read stay, and their band is set aside. Where metadata could not be read,
// the band is examined again after kFirstLook, and each time after twice as long, at most
// kLongestLook: the disk may have failed for a while. A band that failed while it was written is
// reset and used again, until it has failed BandTable's number of times.
//
// Not thread-safe: the collector's work_mu_ guards it.
class FailedBands {
 public:
  FailedBands(Port& port, data::BandTable& bands, BandMover& mover, BandResetter& resetter,
              Clock& clock)
      : port_(port), bands_(bands), mover_(mover), resetter_(resetter), clock_(clock) {}

  // Does nothing for a while after an error: kFirstPause, and twice as long after each further one,
  // at most kLongestPause. A band whose move failed is moved again after that.
  Result<> evacuate();

 private:
  static constexpr std::chrono::nanoseconds kFirstPause = std::chrono::seconds(1),
                                            kLongestPause = std::chrono::seconds(30),
                                            kFirstLook = std::chrono::minutes(1),
                                            kLongestLook = std::chrono::hours(1);

  void look_again_at_damaged();
  Result<> move(BandId band);
  Result<> move_unreadable_bands();
  Result<> move_bad_bands();
  Result<> move_live_blocks();
  Result<> evacuate_now();

  Port& port_;
  data::BandTable& bands_;
  BandMover& mover_;
  BandResetter& resetter_;
  Clock& clock_;
  std::chrono::nanoseconds not_before_{};
  std::chrono::nanoseconds pause_ = kFirstPause;  // after the next error
  std::chrono::nanoseconds look_at_{};  // when damaged bands are examined again
  std::chrono::nanoseconds look_pause_ = kFirstLook;
};

}  // namespace lazyfs::gc
