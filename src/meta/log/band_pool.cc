#include "meta/log/band_pool.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace lazyfs::meta {

void BandPool::add_free(std::span<const BandId> bands) {
  free_.insert(free_.end(), bands.begin(), bands.end());
  const auto middle = static_cast<std::int64_t>(device_.geometry().band_count() / 2);
  std::ranges::sort(free_, {}, [&](BandId band) {
    return std::pair(std::abs(std::int64_t{band.value} - middle), band);
  });  // F2
}

BandId BandPool::take_nearest() {
  CHECK(!free_.empty());
  const BandId band = free_.front();
  free_.erase(free_.begin());
  return band;
}

std::optional<BandId> BandPool::remove_farthest() {
  if (free_.empty()) return std::nullopt;
  const BandId band = free_.back();
  free_.pop_back();
  return band;
}

void BandPool::retire(std::span<const BandId> bands) {
  retired_.insert(retired_.end(), bands.begin(), bands.end());
}

std::vector<BandId> BandPool::take_retired() { return std::exchange(retired_, {}); }

}  // namespace lazyfs::meta
