// Plans how to give more bands to a plain block device that has become larger.
#pragma once

#include <vector>

#include "base/result.h"
#include "device/growth.h"
#include "plain/identity_format.h"

namespace lazyfs::plain {

struct Growth {
  Identity identity;
  // First the copy of the identification block at the new end, with zeros around it as mkfs leaves
  // them. Then the block at the start: with this write the device has grown.
  std::vector<device::GrowthStep> steps;
};

// Adds as many bands as fit into `size_bytes`. Super bands keep their places. Error: kGrowNoRoom if
// not one more band fits.
Result<Growth> plan_growth(const Identity& now, std::uint64_t size_bytes);

}  // namespace lazyfs::plain
