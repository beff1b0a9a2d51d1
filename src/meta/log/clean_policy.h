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

// `bands`: those of the hot log but its head, oldest first, then cold ones that take no more. It is
// the one where most is won, for the longest time, for what has to be moved: what an old band holds
// has not changed for long, so the space that it leaves is not lost again soon, and moving it pays
// while it is still rather full; what a young one holds may die by itself. If that is a hot band
// behind the oldest one, and twice as good, those in front of it go to the cold log as they are,
// provided that they are at least half live and `may_adopt`; else the oldest one is moved.
std::optional<CleanChoice> choose_victim(std::span<const BandLive> bands, bool may_adopt);

}  // namespace lazyfs::meta
