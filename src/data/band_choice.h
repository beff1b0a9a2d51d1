// Which bands a stream may append to, and which one the metadata log may take: pure functions of
// the bands' states.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"
#include "data/band_list.h"

namespace lazyfs::data {

// What a stream asks for.
struct OpenRequest {
  Stream stream = Stream::kSmall;
  std::uint32_t max_open = 0;  // bands that may be open, at least 2; conventional ones do not count
  BandId free_from;            // of the free bands of a length: the first from here on, or of all
  bool anywhere = true;        // bands of other streams will do
};

struct OpenChoice {
  // Open bands with room, not leased: the stream's own. If the stream has no band and may not open
  // one: bands of other streams, preferring the same class (user or collector).
  std::vector<BandView> open;
  // The free band to begin, when the stream may. Where bands differ in length (thesis, section
  // 8.2.2): a long one for large files, as long as the reserve consists of bands as long; a long
  // one for what the collector moves, so that one band takes what another held; else a short one.
  std::optional<BandId> free;
  bool own_leased = false;     // waiting for the stream's band, its own or a shared one, may help
};

OpenChoice choose_open(const BandList& bands, const OpenRequest& request);

// The free band of at least `min_blocks` that is nearest the centre, where the log is; of two the
// lower one; no conventional one, for the log is made of write pointers. nullopt also when no other
// free band would remain.
std::optional<BandId> choose_for_log(const BandList& bands, std::uint32_t min_blocks);

}  // namespace lazyfs::data
