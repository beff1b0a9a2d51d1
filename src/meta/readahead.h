// How far to read on along the log when a node is missing. Nodes that were made together lie
// together (ext4-lazy, FAST'17, section 5: three seeks for a cold walk of 10,000 files), so a
// reader that goes along the log is given more with each miss; one that jumps gets what it asked
// for. Policy only: no I/O. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "base/types.h"

namespace lazyfs::meta {

class Readahead {
 public:
  static constexpr std::uint32_t kMaxBlocks = 256;  // 1 MiB

  // A node at `at` is to be read: how many blocks from there on to read with it, at least 1.
  std::uint32_t blocks(BandAddress at);

 private:
  // A reader that goes along the log: what was last read for it ends before `end`.
  struct Stream {
    BandId band;
    std::uint32_t end = 0;
    std::uint32_t blocks = 0;  // 0: unused
    std::uint64_t last_used = 0;
  };
  static constexpr std::uint32_t kNearBlocks = 16;  // misses that far apart still belong together

  std::array<Stream, 8> streams_;
  std::uint64_t uses_ = 0;
};

}  // namespace lazyfs::meta
