// How much to read with a node that is missing. Nodes that were made together lie together
// (ext4-lazy, FAST'17, section 5: three seeks for a cold walk of 10,000 files), so a reader that
// goes along the log is given more with each miss, most of it before it asks; one that jumps gets
// what it asked for, and its neighbours while there is memory for them: beside a seek they cost
// nothing. Policy only: no I/O. Not thread-safe.
#pragma once

#include <cstdint>

#include "base/types.h"
#include "device/read_streams.h"

namespace lazyfs::meta {

class Readahead {
 public:
  static constexpr std::uint32_t kMaxBlocks = 256;        // 1 MiB
  static constexpr std::uint32_t kMaxRoomyBlocks = 2048;  // 8 MiB, while there is memory for them
  static constexpr std::uint32_t kAroundBlocks = 4;       // before and after a miss, the same

  // What to read, in blocks relative to the missing node.
  struct Window {
    std::uint32_t before = 0;  // together with the node
    std::uint32_t after = 1;  // together with it, itself included
    // While the reader continues: more after those, and then, before the node.
    std::uint32_t later_after = 0;
    std::uint32_t later_before = 0;
    friend bool operator==(const Window&, const Window&) = default;
  };

  // A node at `at` is to be read. `has_room`: the cache need not evict anything for what is read.
  Window window(BandAddress at, bool has_room);

 private:
  static constexpr std::uint32_t kNowBlocks = 8;     // that a reader waits for at most
  static constexpr std::uint32_t kFirstBlocks = 32;  // for a lone miss, while there is memory

  device::ReadStreams streams_;
};

}  // namespace lazyfs::meta
