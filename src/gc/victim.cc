#include "gc/victim.h"

namespace lazyfs::gc {
namespace {

template <class Score>
std::optional<BandId> best(std::span<const BandUse> bands, Score score) {
  const BandUse* best = nullptr;
  for (const BandUse& band : bands) {
    if (band.live_blocks >= band.written_blocks) continue;
    if (!best || score(band) > score(*best) ||
        (score(band) == score(*best) && band.band < best->band)) {
      best = &band;
    }
  }
  return best ? std::optional(best->band) : std::nullopt;
}

}  // namespace

std::optional<BandId> pick_greedy(std::span<const BandUse> bands) {
  return best(bands, [](const BandUse& b) { return b.written_blocks - b.live_blocks; });
}

std::optional<BandId> pick_cost_benefit(std::span<const BandUse> bands) {
  return best(bands, [](const BandUse& b) {
    const double u = static_cast<double>(b.live_blocks) / static_cast<double>(b.written_blocks);
    return (1 - u) * static_cast<double>(b.age + 1) / (1 + u);
  });
}

double tail_profit(std::uint64_t hole_blocks, std::uint64_t tail_blocks) {
  if (tail_blocks == 0) return static_cast<double>(hole_blocks);
  return static_cast<double>(hole_blocks + tail_blocks) / static_cast<double>(tail_blocks);
}

Urgency urgency(double free_percent, double dead_percent, unsigned low_percent,
                unsigned high_percent) {
  if (dead_percent <= 0) return Urgency::kNone;
  if (free_percent < high_percent) return Urgency::kHigh;
  if (free_percent < low_percent) return Urgency::kLow;
  return Urgency::kNone;
}

}  // namespace lazyfs::gc
