// What to clean and when: pure policies over values, no I/O, clock, lock or random number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/types.h"

namespace lazyfs::gc {

struct BandUse {
  BandId band;
  std::uint64_t written_blocks = 0;  // the write pointer
  std::uint64_t live_blocks = 0;     // <= written_blocks
  std::uint64_t age = 0;             // since the last append, any unit
};

// The band with the most dead blocks (thesis, section 6.2.1). nullopt when none has any. Ties go to the
// lower band, so that a run replays.
std::optional<BandId> pick_greedy(std::span<const BandUse> bands);

// The band whose cleaning pays most when young data is likely to die by itself: (1 - u) age / (1 + u),
// u the live share (LFS, Rosenblum and Ousterhout 1992, section 3.5).
std::optional<BandId> pick_cost_benefit(std::span<const BandUse> bands);

// Profit of cleaning the tail of a band: blocks gained over blocks moved (thesis, figure 10).
// `hole_blocks` is the last run of dead blocks, `tail_blocks` the live blocks behind it.
double tail_profit(std::uint64_t hole_blocks, std::uint64_t tail_blocks);

enum class Urgency : std::uint8_t { kNone, kLow, kHigh };

// How urgently to clean when `free_percent` of the data blocks are in free bands or can be appended, and
// `dead_percent` are dead (thesis, section 6.3.2).
Urgency urgency(double free_percent, double dead_percent, unsigned low_percent,
                unsigned high_percent);

}  // namespace lazyfs::gc
