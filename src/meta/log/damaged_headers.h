// Finds damaged headers of the log's bands.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "device/device.h"

namespace lazyfs::meta {

// Returns, in ascending order, the bands of the hot log and of `live` (bands with live nodes) whose
// header is damaged. A header is rewritten only when the log has emptied the band and begins it
// again. Until then other blocks tell what the band holds.
// Errors: those of read_superblock() and recover_log().
Result<std::vector<BandId>> damaged_headers(device::Device& device, std::span<const BandId> live);

}  // namespace lazyfs::meta
