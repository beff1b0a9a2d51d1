// Plans how an image whose file has become larger is given more bands.
#pragma once

#include <vector>

#include "base/result.h"
#include "device/growth.h"
#include "edi/layout.h"

namespace lazyfs::edi {

struct Growth {
  Layout layout;
  // Table blocks of the new bands, then the header, which makes the image larger. In format 1 a
  // damaged copy of the header is rewritten first; if none is damaged, the second copy.
  std::vector<device::GrowthStep> steps;
};

// Adds as many bands of the last band's size as fit into `size_bytes`. The bands and the table of
// write pointers do not move, so the table can only grow up to the band that follows it. Errors:
// kGrowNoRoom (no further band fits), kEdiTableFull (the table cannot grow so far), kDeviceRead,
// kDeviceTruncated.
Result<Growth> plan_growth(const Layout& now, const device::Backing& backing,
                           std::uint64_t size_bytes);

}  // namespace lazyfs::edi
