// Moves what can be read out of bands that failed, and of bands that the device could not read
// everywhere.
#pragma once

#include <chrono>
#include <set>

#include "base/clock.h"
#include "base/result.h"
#include "data/band_table.h"
#include "gc/band_mover.h"
#include "gc/band_resetter.h"
#include "gc/port.h"

namespace lazyfs::gc {

// Blocks that cannot be read stay, and their band is set aside. If metadata could not be read, the
// band is examined again, because the disk's failure may be temporary: after kFirstLook, then each
// time after twice as long, at most kLongestLook. A band that failed while it was written is reset
// and used again, until it has failed BandTable's number of times.
//
// Moving the readable blocks out of an unreadable band takes up to a band of room and frees none.
// So the move waits until the reserve is free. Otherwise a few such bands would use up the reserve,
// and no other band could be cleaned. Waiting bands are examined again as damaged ones are.
//
// Not thread-safe: the collector's work_mu_ guards it.
class FailedBands {
 public:
  FailedBands(Port& port, data::BandTable& bands, BandMover& mover, BandResetter& resetter,
              Clock& clock)
      : port_(port), bands_(bands), mover_(mover), resetter_(resetter), clock_(clock) {}

  // Does nothing for a while after an error, or while the device may be to blame that bands failed:
  // kFirstPause, and twice as long each further time, at most kLongestPause. A band whose move or
  // reset failed is tried again after that.
  Result<> evacuate();
  // Reads all live blocks of the band. If some cannot be read the band is set aside, waits to be
  // moved, and the result is true. REQUIRES: the band is sealed or bad.
  bool set_aside_if_unreadable(BandId band);
  // Whether a band must be read (set_aside_if_unreadable()) before anything is moved out of it: the
  // reserve is incomplete, and some band is known to be unreadable, so others may be, too.
  bool must_read_first() const;

 private:
  static constexpr std::chrono::nanoseconds kFirstPause = std::chrono::seconds(1),
                                            kLongestPause = std::chrono::seconds(30),
                                            kFirstLook = std::chrono::minutes(1),
                                            kLongestLook = std::chrono::hours(1);

  void look_again();
  Result<bool> move(BandId band);
  Result<> move_unreadable_bands();
  bool has_room_to_move(const data::BandView& bad);
  Result<> move_bad_bands();
  Result<> move_live_blocks();
  Result<> evacuate_now();
  bool has_bad_suspects() const;

  Port& port_;
  data::BandTable& bands_;
  BandMover& mover_;
  BandResetter& resetter_;
  Clock& clock_;
  std::set<BandId> waiting_;  // unreadable bands whose other blocks are to be moved
  std::chrono::nanoseconds not_before_{};
  std::chrono::nanoseconds pause_ = kFirstPause;  // after the next error
  std::chrono::nanoseconds look_at_{};  // when damaged and waiting bands are examined again
  std::chrono::nanoseconds look_pause_ = kFirstLook;
};

}  // namespace lazyfs::gc
