#include "meta/log/clean_policy.h"

#include <algorithm>

namespace lazyfs::meta {
namespace {

constexpr double kFixedCost = 0.1;  // of cleaning any band, in bands

// LFS' benefit and cost (Rosenblum and Ousterhout, 1992): the space gained, times how long it may
// stay free, divided by the nodes to be moved.
double worth(const BandLive& band) {
  const double live = static_cast<double>(band.live) / static_cast<double>(band.blocks);
  return (1 - live) * static_cast<double>(band.age + 1) / (live + kFixedCost);
}

// If less than a sixteenth is dead, moving may take more space than it gains.
bool is_worth_it(const BandLive& band) { return 16 * band.live <= 15 * band.blocks; }

const BandLive& best_of(std::span<const BandLive> bands) {
  const BandLive* best = nullptr;
  for (const BandLive& band : bands) {
    if (!is_worth_it(band)) continue;
    if (best == nullptr || worth(band) > worth(*best)) best = &band;
  }
  return best != nullptr ? *best : *std::ranges::min_element(bands, {}, &BandLive::live);
}

}  // namespace

std::optional<CleanChoice> choose_victim(std::span<const BandLive> bands, bool may_adopt) {
  if (bands.empty()) return std::nullopt;
  const BandLive& best = best_of(bands);
  const BandLive& oldest = bands.front();
  if (oldest.is_cold || best.is_cold) return CleanChoice{.slot = best.slot};
  const CleanChoice move_oldest{.slot = oldest.slot, .is_oldest_hot = true};
  const bool is_far_better = worth(best) > 2 * worth(oldest);
  if (!is_far_better || !may_adopt || 2 * oldest.live < oldest.blocks) return move_oldest;
  return CleanChoice{CleanChoice::Kind::kAdopt, oldest.slot, true};
}

}  // namespace lazyfs::meta
