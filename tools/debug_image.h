// Makes an image of a volume's metadata.
#pragma once

#include <cstdint>
#include <string>

#include "device/device.h"

namespace lazyfs {

// Makes a sparse file with all of `device`, which is at `path`, except the contents of data bands.
// REQUIRES: `target` does not exist. The file can be opened like the device itself; for a zoned
// device it is an emulated disk image with a band for each zone. It includes the names of files,
// and contents that are stored in the metadata. Parts that cannot be read are named on standard
// error, and left out. Returns the bytes copied. Throws std::runtime_error("what: why").
std::uint64_t copy_metadata(device::Device& device, const std::string& path,
                            const std::string& target);

}  // namespace lazyfs
