#include "meta/store/readahead.h"

#include <algorithm>

namespace lazyfs::meta {

Readahead::Window Readahead::window(BandAddress at, bool has_room) {
  const std::uint32_t blocks =
      has_room ? streams_.window(at, {kFirstBlocks, 4, kMaxRoomyBlocks})
               : streams_.window(at, {1, 2, kMaxBlocks});
  const std::uint32_t now = std::min(blocks, kNowBlocks);
  const std::uint32_t later = blocks - now;
  if (!has_room) return {0, now, later, 0};
  return {std::min(kAroundBlocks, at.rba), now, later, later / 2};
}

}  // namespace lazyfs::meta
