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

// Blocks that cannot be read stay, and their band is set aside. A band that failed while it was
// written is reset and used again, until it has failed BandTable's number of times.
//
// Not thread-safe: the collector's work_mu_ guards it.
class FailedBands {
 public:
  FailedBands(Port& port, data::BandTable& bands, BandMover& mover, BandResetter& resetter,
              Clock& clock)
      : port_(port), bands_(bands), mover_(mover), resetter_(resetter), clock_(clock) {}

  // Does nothing for a second after an error.
  Result<> evacuate();

 private:
  Result<> move_live_blocks();

  Port& port_;
  data::BandTable& bands_;
  BandMover& mover_;
  BandResetter& resetter_;
  Clock& clock_;
  std::chrono::nanoseconds not_before_{};
};

}  // namespace lazyfs::gc
