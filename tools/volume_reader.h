// Reading the tree of a volume from its device, while it may be mounted.
#pragma once

#include <functional>
#include <string>

#include "device/device.h"
#include "meta/store/store.h"

namespace lazyfs {

// Opens the device or image for reading, without a claim, and calls `read`; again, a few times, if
// that fails with an error that a mounted volume causes, because its log moves away from under the
// reader. So `read` must begin its result each time. Throws std::runtime_error("what: why").
void read_volume(const std::string& path,
                 const std::function<Result<>(meta::Store&, device::Device&)>& read);

}  // namespace lazyfs
