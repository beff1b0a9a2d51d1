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
    kAdopt,  // move nothing: the oldest band of the hot log becomes a cold one
  };
  Kind kind = Kind::kMove;
  std::uint64_t slot = 0;
  bool is_oldest_hot = false;
};

// `bands`: the bands of the hot log except its head, oldest first, then the cold bands that take no
// more nodes. Chooses the band whose cleaning gains most space, for the longest time, for each node
// moved. The nodes of an old band have not changed for long. So the space that they leave stays
// free longer, and moving them pays even if the band is rather full. Nodes of a young band may die
// by themselves. If the best band is hot, the oldest hot band is chosen instead. It is adopted if
// the best band is more than twice as good, the oldest is at least half live, and `may_adopt`;
// otherwise its nodes are moved.
std::optional<CleanChoice> choose_victim(std::span<const BandLive> bands, bool may_adopt);

}  // namespace lazyfs::meta
