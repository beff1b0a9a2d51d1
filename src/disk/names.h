// The name of a volume where its device keeps it: in the identification blocks of a plain block
// device. That copy of the name decides, and the superblock's copy follows it. Images have only the
// superblock's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "device/device.h"

namespace lazyfs::disk {

struct VolumeName {
  std::array<std::uint8_t, 16> uuid{};
  std::string label;  // at most 63 bytes, none of them 0
  friend bool operator==(const VolumeName&, const VolumeName&) = default;
};

// The name in the identification block, as of the opening of the device; nullopt if the device has
// no such block. REQUIRES for both: the device comes from disk::open().
std::optional<VolumeName> name_on(const device::Device& device);

// Rewrites both identification blocks, durably; does nothing if the device has none.
// REQUIRES: the device is open for writing. Errors: kDeviceWrite, kDeviceFlush.
Result<> write_name(device::Device& device, const VolumeName& name);

}  // namespace lazyfs::disk
