// What to clean: pure policies over values, no I/O, clock, lock or random number. Ties go to the
// lower band, so that a run replays. When to clean is in trigger.h.
//
// Source: the ShingledFS thesis, section 6.2: whole band and tail cleaning, figure 10.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/types.h"

namespace lazyfs::gc {

// What the mount option clean= chooses.
enum class CleanMode : std::uint8_t {
  kWhole,   // whole bands
  kTail,    // a band's tail whenever there is one
  kAuto,    // whichever pays more
  kGreedy,  // whole bands, the one with the most dead blocks first
};

struct BandUse {
  BandId band;
  std::uint64_t written_blocks = 0;  // the write pointer; of a full band its length
  std::uint64_t live_blocks = 0;     // <= written_blocks
  std::uint64_t age = 0;             // since the last append, any unit
};

// The band with the most dead blocks (thesis, section 6.2.1). nullopt when none has any.
std::optional<BandId> pick_greedy(std::span<const BandUse> bands);

// The band with the greatest (1 - u) (age + 1) / (1 + u), where u is its live share: young data is
// likely to die by itself (LFS, Rosenblum and Ousterhout 1992, section 3.5). A band is no victim,
// however old, if its dead share is less than half the dead share of all bands together. nullopt
// when no band has dead blocks.
std::optional<BandId> pick_cost_benefit(std::span<const BandUse> bands);

// Which bands may be cleaned.
struct VictimScope {
  bool with_open = false;           // partly written bands too, when no full band is a victim
  unsigned least_dead_percent = 0;  // of a band's written blocks; at least one block in any case
};
bool is_in_scope(std::uint64_t dead_blocks, std::uint64_t written_blocks, VictimScope scope);
// Chooses from `full` with pick_cost_benefit(), or with pick_greedy() in mode kGreedy. If that
// gives none and scope.with_open is set, chooses from `open` with pick_greedy().
std::optional<BandUse> pick_victim(std::span<const BandUse> full, std::span<const BandUse> open,
                                   CleanMode mode, VictimScope scope);

// The end of a band: its last run of dead blocks ("hole") and the live blocks past it, up to the
// write pointer. Moving the live ones away lets the write pointer go back to the start of the hole.
struct TailUse {
  BandId band;
  std::uint64_t hole_blocks = 0;  // D
  std::uint64_t tail_blocks = 0;  // L
};

// Profit of cleaning the tail: blocks gained over blocks moved, S / L with S = D + L. Infinite when
// there is a hole and nothing to move; 0 when there is neither hole nor tail.
double tail_profit(std::uint64_t hole_blocks, std::uint64_t tail_blocks);

// The tail with the highest profit; of equal ones the tail that gains more space. nullopt when none
// has a hole, so that moving would gain nothing.
std::optional<BandId> pick_tail(std::span<const TailUse> tails);

// Whether to clean that tail rather than all of `whole`: it gains more for each block moved, and at
// least `least_gain` blocks, because a cut costs a commit, as a reset does.
bool tail_pays(const TailUse& tail, const std::optional<BandUse>& whole, std::uint64_t least_gain);

}  // namespace lazyfs::gc
