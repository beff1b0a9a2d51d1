// Resets bands that hold nothing live.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "base/result.h"
#include "data/band_table.h"
#include "device/device.h"
#include "gc/band_mover.h"
#include "gc/counters.h"
#include "gc/port.h"
#include "gc/tail_cleaner.h"

namespace lazyfs::gc {

// A band is reset (rule 2) only when the batch that took its last live block away is durable, and
// no reader has pinned the band; then its logs are erased. A crash between reset and erasure is
// finished by the next mount, which resets every written band without live blocks.
//
// Not thread-safe: the collector's work_mu_ guards it.
class BandResetter {
 public:
  BandResetter(Port& port, device::Device& device, data::BandTable& bands, BandMover& mover,
               TailCleaner& tail_cleaner, Counters& counters)
      : port_(port),
        device_(device),
        bands_(bands),
        mover_(mover),
        tail_cleaner_(tail_cleaner),
        counters_(counters) {}

  // Commits, then resets the bands that held nothing live before. Returns these bands.
  Result<std::vector<BandId>> reset_empty_bands();
  // Bands that failed while they were written, hold nothing live, and may be tried again. Returns
  // how many are free afterwards. Error: kLogFull, when none is because no log could be erased.
  Result<std::size_t> reset_failed_bands();

 private:
  Result<> reset_on_device(BandId band);
  // REQUIRES: the band is kResetting.
  Result<> reset(BandId band);

  Port& port_;
  device::Device& device_;
  data::BandTable& bands_;
  BandMover& mover_;
  TailCleaner& tail_cleaner_;
  Counters& counters_;
  std::set<BandId> emptied_;  // the device has reset them, but their logs are not erased
};

}  // namespace lazyfs::gc
