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
  BandId free_from;            // the first suitable free band from here on, else of all
  bool anywhere = true;        // bands of other streams are allowed
};

struct OpenChoice {
  // Open bands with room, not leased: the stream's own. If the stream has no band and may not open
  // one: bands of other streams, preferring the same class (user or collector).
  std::vector<BandView> open;
  // The free band to begin, if the stream may begin one. If free bands differ in length (thesis,
  // section 8.2.2): for large files a longest one, while more of these are free than the reserve
  // needs; for the collector a longest one, so that one band takes what another held; else a
  // shortest one.
  std::optional<BandId> free;
  bool own_leased = false;     // the stream's band, own or shared, is leased: waiting may help
};

OpenChoice choose_open(const BandList& bands, const OpenRequest& request);

// The free band of at least `min_blocks` that is nearest to the centre, where the log is. Of two
// equally near ones the lower one. Never a conventional band, because the log needs write pointers.
// nullopt also unless the other free bands have as many blocks as the largest band, so that any
// band can be cleaned.
std::optional<BandId> choose_for_log(const BandList& bands, std::uint32_t min_blocks);

}  // namespace lazyfs::data
