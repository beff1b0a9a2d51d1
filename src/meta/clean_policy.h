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

// `bands`: those of the hot log but its head, oldest first, then cold ones that take no more. The
// oldest hot one has had most time to die, so it is the one, unless a cold band holds less, or a
// younger hot one less than half as much. If that one is hot, those in front of it go to the cold
// log as they are, provided that they are at least half live and `may_adopt`.
std::optional<CleanChoice> choose_victim(std::span<const BandLive> bands, bool may_adopt);

}  // namespace lazyfs::meta
