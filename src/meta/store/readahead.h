// How much to read with a missing node. Nodes that were made together lie together (ext4-lazy,
// FAST'17, section 5: three seeks for a cold walk of 10,000 files). So a reader that goes along the
// log gets more with each miss, most of it before it asks. A reader that jumps gets the node that
// it asked for, and its neighbours while the cache has room for them: after a seek they cost almost
// nothing. Policy only: no I/O. Not thread-safe.
#pragma once

#include <cstdint>

#include "base/types.h"
#include "device/read_streams.h"

namespace lazyfs::meta {

class Readahead {
 public:
  static constexpr std::uint32_t kMaxBlocks = 256;        // 1 MiB
  static constexpr std::uint32_t kMaxRoomyBlocks = 2048;  // 8 MiB, while the cache has room
  static constexpr std::uint32_t kAroundBlocks = 4;       // before a miss, while the cache has room

  // What to read, in blocks relative to the missing node.
  struct Window {
    std::uint32_t before = 0;  // before the node, read together with it
    std::uint32_t after = 1;  // from the node on, read together with it
    // Read while the reader continues: first this many more after those, then this many before.
    std::uint32_t later_after = 0;
    std::uint32_t later_before = 0;
    friend bool operator==(const Window&, const Window&) = default;
  };

  // A node at `at` is to be read. `has_room`: the cache need not evict anything for what is read.
  Window window(BandAddress at, bool has_room);

 private:
  static constexpr std::uint32_t kNowBlocks = 8;     // a reader waits for these, from its node on
  static constexpr std::uint32_t kFirstBlocks = 32;  // for a lone miss, while the cache has room

  device::ReadStreams streams_;
};

}  // namespace lazyfs::meta
