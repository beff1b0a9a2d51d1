// How much to read at a miss. A reader that goes along a band gets more blocks with each miss; a
// reader that jumps gets only the first size. Policy only: no I/O.
#pragma once

#include <array>
#include <cstdint>

#include "base/types.h"

namespace lazyfs::device {

// Remembers the last eight readers that went along a band. Not thread-safe.
class ReadStreams {
 public:
  // The size of a window in blocks: `first` for a miss that belongs to no reader, then `factor`
  // times as many with each further miss of the reader, at most `most`.
  struct Growth {
    std::uint32_t first = 1;
    std::uint32_t factor = 2;
    std::uint32_t most = 1;
  };
  // The block `at` is missing. Returns how many blocks to read from there, at least 1. A repeated
  // miss at the same block gets the same number.
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
