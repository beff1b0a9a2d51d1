// What a lazyfs does with a volume whose feature words have bits that it does not know.
#pragma once

#include <string>

#include "base/result.h"
#include "device/device.h"
#include "meta/log/superblock.h"

namespace lazyfs::meta {

// Errors: kFeatureUnknown if the volume cannot be opened at all, kFeatureReadOnly if it can be
// opened, but not for writing.
Result<> check_features(const Features& features, bool read_only);

// The cause of a failure, for a message: describe(error), and the unknown features if the error is
// one of these two.
std::string explain(device::Device& device, Errc error);

}  // namespace lazyfs::meta
