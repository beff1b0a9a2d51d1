// Copies files out of a volume, and makes an image of its metadata.
#pragma once

#include <cstdint>
#include <string>

#include "device/device.h"
#include "fs/volume/volume.h"

namespace lazyfs {

// Copies the file, or the directory with all that it holds, to `target`, which must not exist yet;
// with mode, times, and, for root, owner. Blocks that cannot be read become zeros; each file that
// is not whole is named on standard error. Returns how many such files there were. Throws
// std::runtime_error("what: why").
std::uint64_t copy_out(fs::Volume& volume, const fs::Attributes& from, const std::string& target);

// Makes a sparse file with all of `device` but the contents of data bands. It can be opened like
// the device itself. Names of files, and what the metadata holds of their contents, are in it.
// Returns the bytes copied. Throws std::runtime_error("what: why").
std::uint64_t copy_metadata(device::Device& device, const std::string& path,
                            const std::string& target);

}  // namespace lazyfs
