// Reads file data and checks it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/types.h"
#include "device/device.h"

namespace lazyfs::data {

// Reads blocks and checks each against its checksum. `to` is aligned and holds crcs.size() blocks.
// If one is wrong, reads all of them once more, from the medium: the error may have happened in the
// transfer. Errors: kDataChecksumBad, and those of Device::read(). Thread-safe if the device is.
Result<> read_verified(device::Device& device, BandAddress from,
                       std::span<const std::uint32_t> crcs, std::span<std::byte> to);

}  // namespace lazyfs::data
