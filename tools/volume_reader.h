// Reading the tree of a volume from its device, while it may be mounted.
#pragma once

#include <functional>
#include <string>

#include "device/device.h"
#include "meta/store/store.h"

namespace lazyfs {

// Opens the device or image for reading, without a claim, and calls `read`. Does so again, a few
// times, after an error that a mounted volume may cause, because its log changes during the reads.
// REQUIRES: each call of `read` begins its result from the start. Throws std::runtime_error("what:
// why").
void read_volume(const std::string& path,
                 const std::function<Result<>(meta::Store&, device::Device&)>& read);

}  // namespace lazyfs
