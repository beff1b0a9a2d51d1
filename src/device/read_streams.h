// How much to read at a miss: a reader that goes along a band is given more with each miss, one
// that jumps gets what it asked for. Policy only: no I/O.
#pragma once

#include <array>
#include <cstdint>

#include "base/types.h"

namespace lazyfs::device {

// Remembers the last eight readers that went along a band. Not thread-safe.
class ReadStreams {
 public:
  // Of a window, in blocks: for a miss that belongs to no reader; by how much it grows with each
  // further miss of a reader; at most.
  struct Growth {
    std::uint32_t first = 1;
    std::uint32_t factor = 2;
    std::uint32_t most = 1;
  };
  // A block at `at` is missing. Returns how many blocks to read from there, at least 1. The same
  // miss again is given as many as before.
  // REQUIRES: growth.first, growth.factor and growth.most are at least 1.
  std::uint32_t window(BandAddress at, const Growth& growth);

 private:
  struct Stream {
    BandId band;
    std::uint32_t end = 0;     // of what was last read for it
    std::uint32_t blocks = 0;  // 0: unused
    std::uint64_t last_used = 0;
  };
  static constexpr std::uint32_t kNearBlocks = 16;  // misses that far apart still belong together

  std::array<Stream, 8> streams_;
  std::uint64_t uses_ = 0;
};

}  // namespace lazyfs::device
