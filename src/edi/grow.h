// Plans how an image whose file has become larger is given more bands.
#pragma once

#include <vector>

#include "base/result.h"
#include "device/growth.h"
#include "edi/layout.h"

namespace lazyfs::edi {

struct Growth {
  Layout layout;
  // Table blocks of the new bands, then the header, which makes the image larger. Of format 1 a
  // copy of the header that is damaged is rewritten first, else the second one.
  std::vector<device::GrowthStep> steps;
};

// As many bands of the size of the last one as fit into `size_bytes`. The table of write pointers
// and the bands do not move, so the table grows up to the band that follows it and no further.
// Errors: kGrowNoRoom if that is no band more, kEdiTableFull, kDeviceRead, kDeviceTruncated.
Result<Growth> plan_growth(const Layout& now, const device::Backing& backing,
                           std::uint64_t size_bytes);

}  // namespace lazyfs::edi
