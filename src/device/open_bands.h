// Which bands of a device with Capabilities::max_open_bands are partly written, and which of those
// their host has sealed: pure bookkeeping for the devices that keep the limit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>

#include "base/types.h"

namespace lazyfs::device {

// Invariants:
//   O1  a sealed band is partly written, or its first append has failed
//   O2  after may_begin() has returned true, one further band may be noted as partly written
// Not thread-safe.
class OpenBands {
 public:
  explicit OpenBands(std::uint32_t limit) : limit_(limit) {}  // 0: no limit

  // Notes that the band's write pointer is now `pointer`.
  void note(BandId band, std::uint32_t pointer, std::uint32_t blocks) {
    const bool is_open = pointer > 0 && pointer < blocks;
    is_open ? begin(band) : end(band);
  }
  // Called when the first append to the band starts.
  void begin(BandId band) { open_.insert(band); }
  void end(BandId band) {
    open_.erase(band);
    sealed_.erase(band);
  }
  void seal(BandId band) {
    if (open_.contains(band)) sealed_.insert(band);
  }
  void unseal(BandId band) { sealed_.erase(band); }
  void unseal_all() { sealed_.clear(); }

  bool is_open(BandId band) const { return open_.contains(band); }
  bool is_sealed(BandId band) const { return sealed_.contains(band); }
  std::size_t count() const { return open_.size(); }
  bool may_begin() const { return limit_ == 0 || open_.size() < limit_; }
  // A sealed band that is not in `except`. The device can finish it so that another band may begin.
  std::optional<BandId> sealed(const std::set<BandId>& except = {}) const {
    const auto at = std::ranges::find_if(
        sealed_, [&](BandId band) { return !except.contains(band); });
    return at == sealed_.end() ? std::nullopt : std::optional(*at);
  }

 private:
  std::uint32_t limit_;
  std::set<BandId> open_;
  std::set<BandId> sealed_;
};

}  // namespace lazyfs::device
