// What the devices in files and on block devices share when they grow. The writes that make a
// device larger are planned first. So a test can cut the power between and within any two of them.
#pragma once

#include <span>

#include "base/buffer.h"
#include "device/backing.h"

namespace lazyfs::device {

// One write. It is durable before the next one begins.
struct GrowthStep {
  std::uint64_t at = 0;
  AlignedBuffer bytes;
};

// Enlarges a file to `bytes`; 0: it keeps its size. Returns the size of the file or block device.
// Errors: kGrowSize, kGrowSmaller, kDeviceNoSpace, kDeviceRead.
Result<std::uint64_t> size_to_fill(const Backing& backing, std::uint64_t bytes);

// Makes a new size of the file durable, then writes the steps in order, each durable before the
// next. Errors: kDeviceWrite, kDeviceNoSpace, kDeviceFlush.
Result<> write_steps(const Backing& backing, std::span<const GrowthStep> steps);

}  // namespace lazyfs::device
