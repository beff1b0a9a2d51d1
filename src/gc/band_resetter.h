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
// no reader has pinned the band; then its logs are erased. After a crash between reset and erasure
// the next mount finishes the work: it resets every written band without live blocks.
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
  // Resets bands that failed while they were written, hold nothing live, and may be tried again.
  // Returns how many became free. Error: kLogFull if none did, because no band's logs could be
  // erased.
  Result<std::size_t> reset_failed_bands();

 private:
  Result<> erase_log(BandId band);
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
