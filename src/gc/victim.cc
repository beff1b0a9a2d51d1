#include "gc/victim.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

namespace lazyfs::gc {
namespace {

template <class Score>
std::optional<BandId> best(std::span<const BandUse> bands, Score score) {
  const BandUse* best = nullptr;
  for (const BandUse& band : bands) {
    if (band.live_blocks >= band.written_blocks) continue;  // nothing is dead in it
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
  std::uint64_t written = 0, dead = 0;
  for (const BandUse& b : bands) {
    written += b.written_blocks;
    dead += b.written_blocks - b.live_blocks;
  }
  std::vector<BandUse> worth_it;
  std::ranges::copy_if(bands, std::back_inserter(worth_it), [&](const BandUse& b) {
    const auto band_dead = static_cast<double>(b.written_blocks - b.live_blocks);
    return 2 * band_dead * static_cast<double>(written) >=
           static_cast<double>(dead) * static_cast<double>(b.written_blocks);
  });
  return best(std::span<const BandUse>(worth_it), [](const BandUse& b) {
    const double u = static_cast<double>(b.live_blocks) / static_cast<double>(b.written_blocks);
    return (1 - u) * static_cast<double>(b.age + 1) / (1 + u);
  });
}

bool is_in_scope(std::uint64_t dead_blocks, std::uint64_t written_blocks, VictimScope scope) {
  return dead_blocks * 100 >= std::uint64_t{scope.least_dead_percent} * written_blocks;
}

std::optional<BandUse> pick_victim(std::span<const BandUse> full, std::span<const BandUse> open,
                                   CleanMode mode, VictimScope scope) {
  const auto pick = [scope](std::span<const BandUse> all, auto policy) -> std::optional<BandUse> {
    std::vector<BandUse> bands;
    std::ranges::copy_if(all, std::back_inserter(bands), [scope](const BandUse& b) {
      return is_in_scope(b.written_blocks - b.live_blocks, b.written_blocks, scope);
    });
    const std::optional<BandId> victim = policy(bands);
    const auto at =
        std::ranges::find_if(bands, [&](const BandUse& b) { return b.band == victim; });
    return at == bands.end() ? std::nullopt : std::optional(*at);
  };
  const auto victim = pick(full, mode == CleanMode::kGreedy ? pick_greedy : pick_cost_benefit);
  if (victim || !scope.with_open) return victim;
  return pick(open, pick_greedy);
}

double tail_profit(std::uint64_t hole_blocks, std::uint64_t tail_blocks) {
  const auto hole = static_cast<double>(hole_blocks), tail = static_cast<double>(tail_blocks);
  if (tail_blocks > 0) return (hole + tail) / tail;
  return hole_blocks > 0 ? std::numeric_limits<double>::infinity() : 0;
}

bool tail_pays(const TailUse& tail, const std::optional<BandUse>& whole, std::uint64_t least_gain) {
  if (tail.hole_blocks == 0 || tail.hole_blocks + tail.tail_blocks < least_gain) return false;
  if (!whole) return true;
  // Cleaning a whole band gains its written blocks and moves its live ones.
  return tail_profit(tail.hole_blocks, tail.tail_blocks) >
         tail_profit(whole->written_blocks - whole->live_blocks, whole->live_blocks);
}

std::optional<BandId> pick_tail(std::span<const TailUse> tails) {
  // More profit, then more space gained, then the lower band.
  const auto better = [](const TailUse& a, const TailUse& b) {
    const double profit_a = tail_profit(a.hole_blocks, a.tail_blocks);
    const double profit_b = tail_profit(b.hole_blocks, b.tail_blocks);
    if (profit_a != profit_b) return profit_a > profit_b;
    const std::uint64_t gain_a = a.hole_blocks + a.tail_blocks;
    const std::uint64_t gain_b = b.hole_blocks + b.tail_blocks;
    return gain_a != gain_b ? gain_a > gain_b : a.band < b.band;
  };
  const TailUse* best = nullptr;
  for (const TailUse& tail : tails) {
    if (tail.hole_blocks > 0 && (!best || better(tail, *best))) best = &tail;
  }
  return best ? std::optional(best->band) : std::nullopt;
}

}  // namespace lazyfs::gc
