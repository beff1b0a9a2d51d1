// Makes an image of a volume's metadata.
#pragma once

#include <cstdint>
#include <string>

#include "device/device.h"

namespace lazyfs {

// Makes a sparse file with all of `device`, which is at `path`, but the contents of data bands. The
// file must not exist yet. It can be opened like the device itself; of a zoned device it is an
// emulated disk image with a band for each zone. Names of files, and what the metadata holds of
// their contents, are in it. What cannot be read is named on standard error, and left out. Returns
// the bytes copied. Throws std::runtime_error("what: why").
std::uint64_t copy_metadata(device::Device& device, const std::string& path,
                            const std::string& target);

}  // namespace lazyfs
