#include "device/read_streams.h"

#include <algorithm>

namespace lazyfs::device {

std::uint32_t ReadStreams::window(BandAddress at, const Growth& growth) {
  ++uses_;
  const auto is_near = [at](const Stream& stream) {
    const std::uint64_t slack = std::max(stream.blocks, kNearBlocks);
    return stream.blocks > 0 && stream.band == at.band &&
           at.rba + slack + stream.blocks >= stream.end && at.rba <= stream.end + slack;
  };
  auto stream = std::ranges::find_if(streams_, is_near);
  if (stream == streams_.end()) {
    stream = std::ranges::min_element(streams_, {}, &Stream::last_used);
    *stream = {at.band, 0, growth.first, 0};
  } else if (at.rba + stream->blocks != stream->end) {  // not the same place again
    stream->blocks = std::min(growth.factor * stream->blocks, growth.most);
  }
  stream->end = at.rba + stream->blocks;
  stream->last_used = uses_;
  return stream->blocks;
}

}  // namespace lazyfs::device
