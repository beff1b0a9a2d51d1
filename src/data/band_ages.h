// The age of each band's data, measured in blocks that users have appended since.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"
#include "data/band.h"

namespace lazyfs::data {

// As SepBIT does it (Wang et al., "Separating Data via Block Invalidation Time Inference for Write
// Amplification Reduction in Log-Structured Storage", FAST 2022), with one mean age for each band
// instead of one for each block. The lifespan is the moving average, over bands of rewritten data,
// of the time from a band's first append to its reset.
//
// Not thread-safe.
class BandAges {
 public:
  // `total_blocks`: of all data bands. The lifespan is a fourth of them until one is measured.
  BandAges(std::size_t bands, std::uint64_t total_blocks);

  // REQUIRES: as many bands as there are, or more.
  void set_band_count(std::size_t bands) { births_.resize(bands); }

  // Notes that blocks were appended to the band, which held `before` blocks. If the collector moved
  // them, the caller also calls moved(), which gives them their age.
  void appended(BandId band, Stream stream, std::uint64_t before, std::uint32_t blocks);
  // Notes that blocks of `from`, which has `from_blocks`, were appended to `to`. They keep their
  // age.
  void moved(BandId from, std::uint64_t from_blocks, BandId to, std::uint32_t blocks);
  // Notes that the band keeps only the first `after` of its `before` blocks.
  void cut(BandId band, std::uint64_t before, std::uint64_t after);
  // Notes the reset of the band. `was_rewritten`: the band held rewritten data, so its lifespan is
  // measured if all of its data was written since the mount.
  void reset(BandId band, bool was_rewritten);

  // Whether the band's data is young: data that replaces it is likely to be replaced soon too.
  bool is_young(BandId band, std::uint64_t blocks) const;
  // The stream for what the collector moves out of the band.
  Stream stream_for_moved(BandId band, std::uint64_t blocks) const;

 private:
  struct Birth {
    std::uint64_t sum = 0;  // of the clock at the birth of each block; 0 before the mount
    // The clock at the first append; nullopt if that was before the mount, or the band is empty.
    std::optional<std::uint64_t> begun;
  };
  std::uint64_t age(BandId band, std::uint64_t blocks) const;  // of its blocks, on average

  std::vector<Birth> births_;
  std::uint64_t clock_;  // start value plus blocks that users have appended
  std::uint64_t lifespan_;
};

}  // namespace lazyfs::data
