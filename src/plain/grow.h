// Plans how a plain block device that has become larger is given more bands.
#pragma once

#include <vector>

#include "base/result.h"
#include "device/growth.h"
#include "plain/identity_format.h"

namespace lazyfs::plain {

struct Growth {
  Identity identity;
  // The copy of the identification block at the new end, with zeros around it as mkfs leaves them;
  // then the block at the start, which makes the device grown.
  std::vector<device::GrowthStep> steps;
};

// As many bands as fit into `size_bytes`; super bands stay where they are. Error: kGrowNoRoom if
// that is no band more.
Result<Growth> plan_growth(const Identity& now, std::uint64_t size_bytes);

}  // namespace lazyfs::plain
