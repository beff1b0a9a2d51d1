// What FITRIM asks for: discarding the bands in which nothing is written.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "data/band_table.h"
#include "device/device.h"

namespace lazyfs::fs {

// A range of the device, as if the bands lay one after another.
struct TrimRange {
  std::uint64_t start = 0, length = UINT64_MAX;  // bytes; decided by a band's first byte
  std::uint64_t min_bytes = 0;                   // of a run of adjacent free bands
};

// Discards the free bands of the range. A band of the log counts as free if the device knows that
// it is empty. Bands that come into use meanwhile are left alone. Returns the bytes discarded.
// REQUIRES: the resets of the free bands are durable.
// Errors: kInvalid (the range is shorter than a block, or starts past the last band), and those of
// Device::discard().
Result<std::uint64_t> trim_free_bands(device::Device& device, const data::BandTable& bands,
                                      const TrimRange& range);

}  // namespace lazyfs::fs
