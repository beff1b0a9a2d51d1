// What every band of a filesystem holds, and what that amounts to: the report of edistats. The
// figures are those of the metadata; nothing is changed, and the filesystem may be in use.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

enum class BandState : std::uint8_t {
  kUsed,          // file data, written to its end
  kFree,          // nothing is written
  kOpen,          // file data, with room behind the write pointer
  kLog,           // metadata
  kSuper,         // superblocks
  kConventional,  // unshingled, of file data
  kOffline,       // the device can no longer read it
};

std::string_view title_of(BandState state);  // "Used"
std::string_view name_of(BandState state);   // "used"

struct BandLine {
  BandId band;
  BandState state = BandState::kFree;
  std::uint64_t blocks = 0;
  std::uint64_t write_pointer = 0;
  std::uint64_t live = 0;  // blocks whose contents somebody needs
  std::uint64_t dead = 0;  // written, and needed no more
  friend bool operator==(const BandLine&, const BandLine&) = default;
};

// Of the bands of file data (used, free, open and conventional ones) only.
struct BandTotals {
  std::uint64_t live = 0, dead = 0, free = 0;  // blocks; free: not in any account
  std::uint64_t free_bands = 0;
  std::uint64_t host_blocks = 0;    // data blocks that users had written since mkfs ...
  std::uint64_t device_blocks = 0;  // ... and those and the collector's copies
  std::uint64_t log_live = 0, log_dead = 0, log_bands = 0;  // of the metadata log
  // 1 when nothing is live, or nothing was written.
  double overhead() const;             // (live + dead) / live: thesis, section 8.1
  double write_amplification() const;  // device_blocks / host_blocks
};

struct BandReport {
  std::vector<BandLine> bands;  // in order; without those that are part of a larger, linked one
  BandTotals totals;
};

// Errors: kItemBad, and what reading the tree and asking the device can give.
Result<BandReport> report_bands(meta::Store& store, device::Device& device);

}  // namespace lazyfs::fs
