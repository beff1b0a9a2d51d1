// A second read, from the medium: an error, or bytes that are not what was written, may have been
// temporary. Recovery reads twice before a block counts as damaged.
#pragma once

#include <span>

#include "base/result.h"
#include "device/device.h"

namespace lazyfs::meta {

inline Result<> read_again(device::Device& device, BandAddress at, std::span<std::byte> to) {
  device.forget_copies(at.band);
  return device.read(at, to);
}

// Reads once more after an error.
inline Result<> read_twice(device::Device& device, BandAddress at, std::span<std::byte> to) {
  if (device.read(at, to)) return ok();
  return read_again(device, at, to);
}

}  // namespace lazyfs::meta
