// Bands of the log that hold nothing: free bands, and retired bands, which cannot be used yet.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/types.h"
#include "device/device.h"

namespace lazyfs::meta {

// Invariants:
//   F1  every free band is empty
//   F2  free() is sorted by distance from the middle of the device: the nearest band is used first
//       and kept longest
// Not thread-safe: Log guards it.
class BandPool {
 public:
  BandPool(const device::Device& device, std::vector<BandId> retired)
      : device_(device), retired_(std::move(retired)) {}

  std::span<const BandId> free() const { return free_; }
  void add_free(std::span<const BandId> bands);
  BandId take_nearest();  // REQUIRES: a band is free
  std::optional<BandId> remove_farthest();

  std::span<const BandId> retired() const { return retired_; }
  void retire(std::span<const BandId> bands);
  std::vector<BandId> take_retired();
  // Removes the band from the retired ones. False: it was not among them.
  bool take_retired(BandId band) { return std::erase(retired_, band) == 1; }

  // A write to the band has failed: it is not reset in this session.
  void set_failed(BandId band) { failed_.insert(band); }
  bool has_failed(BandId band) const { return failed_.contains(band); }

 private:
  const device::Device& device_;
  std::vector<BandId> free_;
  std::vector<BandId> retired_;
  std::set<BandId> failed_;
};

}  // namespace lazyfs::meta
