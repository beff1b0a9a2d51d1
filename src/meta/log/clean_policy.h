// Which band of the log the cleaner empties next: a pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace lazyfs::meta {

// A band that could be emptied.
struct BandLive {
  std::uint64_t slot = 0;
  std::uint64_t live = 0;    // nodes whose newest image it holds
  std::uint64_t blocks = 0;  // that it can hold
  std::uint64_t age = 0;     // images written to the log since it was last written to
  bool is_cold = false;
};

struct CleanChoice {
  enum class Kind : std::uint8_t {
    kMove,   // move the live nodes of the band
    kAdopt,  // leave them where they are: the band, the oldest of the hot log, becomes a cold one
  };
  Kind kind = Kind::kMove;
  std::uint64_t slot = 0;
  bool is_oldest_hot = false;
};

// `bands`: those of the hot log but its head, oldest first, then cold ones that take no more.
// Chooses the band that gains most space, for the longest time, for the nodes that have to be
// moved. Nodes of an old band have not changed for long, so the space that they leave is not lost
// again soon, and moving them pays while the band is still rather full; nodes of a young band may
// die by themselves. If the best band is a hot one, younger than the oldest and twice as good, the
// oldest is adopted, provided that it is at least half live and `may_adopt`; otherwise the oldest
// is moved.
std::optional<CleanChoice> choose_victim(std::span<const BandLive> bands, bool may_adopt);

}  // namespace lazyfs::meta
