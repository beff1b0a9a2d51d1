// Cleans the end of a band (thesis, section 6.2.2). If the device can set a write pointer back,
// moving the few live blocks past a band's last hole frees the hole and their own space at once.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "base/result.h"
#include "data/band_table.h"
#include "device/device.h"
#include "gc/band_mover.h"
#include "gc/counters.h"
#include "gc/port.h"
#include "gc/victim.h"

namespace lazyfs::gc {

// First the live blocks of the tail are moved. Then one batch erases the tail's append and delete
// records and adjusts the band's counters. When the batch is durable, the write pointer is set
// back. A crash between the two leaves a write pointer past the accounted blocks, as a lost append
// does, and is recovered in the same way.
//
// Not thread-safe: the collector's work_mu_ guards it.
class TailCleaner {
 public:
  TailCleaner(Port& port, device::Device& device, data::BandTable& bands, BandMover& mover,
              CleanMode mode, Counters& counters)
      : port_(port),
        device_(device),
        bands_(bands),
        mover_(mover),
        counters_(counters) {
    set_mode(mode);
  }

  // Warns when only tails are to be cleaned and the device cannot set write pointers back.
  void set_mode(CleanMode mode);
  CleanMode mode() const { return mode_; }

  // The end of a band, from its last hole on. It consists of whole append records.
  struct Tail {
    TailUse use;
    std::uint32_t start = 0, end = 0;  // RBAs
  };
  // The tail in scope whose cleaning pays most, if it pays more than cleaning all of `whole`. In
  // mode kTail `whole` does not matter.
  std::optional<Tail> pick(const std::optional<BandUse>& whole, VictimScope scope);
  // False if another thread appends to the band or reads from it, or if a block, the metadata or
  // the cut fails. The band may then be sealed or set aside.
  Result<bool> clean(const Tail& tail);
  // The band was reset, and its logs were erased: what was damaged in them counts no more.
  void forget_damaged(BandId band) { damaged_.erase(band); }

 private:
  Result<std::optional<Tail>> find_tail(const data::BandView& band) const;
  bool is_candidate(const data::BandView& band, bool only_open) const;
  Result<> erase_log_tail(BandId band, std::uint32_t start, std::uint32_t blocks,
                          const Port::LogTail& records);
  Result<bool> cut(const Tail& tail);
  void note_damaged(BandId band, Errc why);

  Port& port_;
  device::Device& device_;
  data::BandTable& bands_;
  BandMover& mover_;
  CleanMode mode_ = CleanMode::kAuto;
  Counters& counters_;
  std::set<BandId> damaged_;  // their logs cannot be read: they are cleaned as a whole only
  int failed_cuts_ = 0;
};

}  // namespace lazyfs::gc
