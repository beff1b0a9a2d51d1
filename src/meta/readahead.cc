#include "meta/readahead.h"

#include <algorithm>

namespace lazyfs::meta {

std::uint32_t Readahead::blocks(BandAddress at) {
  ++uses_;
  const auto is_near = [at](const Stream& stream) {
    const std::uint64_t slack = std::max(stream.blocks, kNearBlocks);
    return stream.blocks > 0 && stream.band == at.band &&
           at.rba + slack + stream.blocks >= stream.end && at.rba <= stream.end + slack;
  };
  if (const auto found = std::ranges::find_if(streams_, is_near); found != streams_.end()) {
    found->blocks = std::min(2 * found->blocks, kMaxBlocks);
    found->end = at.rba + found->blocks;
    found->last_used = uses_;
    return found->blocks;
  }
  *std::ranges::min_element(streams_, {}, &Stream::last_used) = {at.band, at.rba + 1, 1, uses_};
  return 1;
}

}  // namespace lazyfs::meta
