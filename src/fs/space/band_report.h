// The report of edistats: what every band of a filesystem holds, and totals. The figures are those
// of the metadata. Reporting changes nothing, and the filesystem may be in use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/band.h"
#include "device/device.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

struct BandLine {
  BandId band;
  // A data band is kFree, kOpen or kFull, or kBad if it is offline or set aside.
  data::BandState state = data::BandState::kFree;
  bool is_set_aside = false;     // state is kBad; perhaps readable, not written
  bool is_conventional = false;  // a conventional data band: kOpen unless set aside
  std::uint64_t blocks = 0;
  std::uint64_t write_pointer = 0;
  std::uint64_t live = 0;
  std::uint64_t dead = 0;         // written, and not live
  std::uint64_t log_records = 0;  // in its append and delete logs
  friend bool operator==(const BandLine&, const BandLine&) = default;
};

std::string_view title_of(const BandLine& line);  // "Used"
std::string name_of(const BandLine& line);        // "used"

// Totals of the data bands, without those that are offline or set aside; and of the metadata log.
struct BandTotals {
  std::uint64_t live = 0, dead = 0, free = 0;  // blocks; free: neither live nor dead
  std::uint64_t free_bands = 0;
  std::uint64_t host_blocks = 0;    // data blocks written for users since mkfs
  std::uint64_t device_blocks = 0;  // these and the collector's copies
  std::uint64_t log_live = 0, log_dead = 0, log_bands = 0;  // of the metadata log
  std::uint64_t set_aside_bands = 0;
  // Inodes without a name whose blocks are not free yet (files that are still open among them), and
  // the blocks that they hold.
  std::uint64_t pending_deletions = 0, pending_blocks = 0;
  // 1 when nothing is live, or nothing was written.
  double overhead() const;             // (live + dead) / live: thesis, section 8.1
  double write_amplification() const;  // device_blocks / host_blocks
};

struct BandReport {
  std::vector<BandLine> bands;  // in order; without those that are part of a larger, linked one
  BandTotals totals;
};

// `set_aside`: of a mounted filesystem, the bands that the daemon has set aside. Without it the
// report marks the bands that a mount would set aside, because the device lacks blocks that were
// appended to them. Errors: kItemBad, and those of reading the tree and of Device::report().
Result<BandReport> report_bands(meta::Store& store, device::Device& device,
                                const std::optional<std::vector<BandId>>& set_aside = {});

}  // namespace lazyfs::fs
