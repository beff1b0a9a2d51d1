#include "meta/store/readahead.h"

#include <algorithm>

namespace lazyfs::meta {

Readahead::Window Readahead::window(BandAddress at, bool has_room) {
  ++uses_;
  const auto is_near = [at](const Stream& stream) {
    const std::uint64_t slack = std::max(stream.blocks, kNearBlocks);
    return stream.blocks > 0 && stream.band == at.band &&
           at.rba + slack + stream.blocks >= stream.end && at.rba <= stream.end + slack;
  };
  auto stream = std::ranges::find_if(streams_, is_near);
  if (stream == streams_.end()) {
    stream = std::ranges::min_element(streams_, {}, &Stream::last_used);
    *stream = {at.band, 0, has_room ? kFirstBlocks : 1, 0};
  } else if (has_room) {
    stream->blocks = std::min(4 * stream->blocks, kMaxRoomyBlocks);
  } else {
    stream->blocks = std::min(2 * stream->blocks, kMaxBlocks);
  }
  stream->end = at.rba + stream->blocks;
  stream->last_used = uses_;
  const std::uint32_t now = std::min(stream->blocks, kNowBlocks);
  const std::uint32_t later = stream->blocks - now;
  if (!has_room) return {0, now, later, 0};
  return {std::min(kAroundBlocks, at.rba), now, later, later / 2};
}

}  // namespace lazyfs::meta
