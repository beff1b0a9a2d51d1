// Makes the layout of a plain block device: identification blocks, and bands without contents.
#pragma once

#include <string>

#include "base/result.h"
#include "plain/identity_format.h"

namespace lazyfs::plain {

// The identity of an empty volume that fills `volume_bytes`: as many bands of `band_bytes` as fit,
// the first and the last one for superblocks. Uuid, label and times are the caller's.
// Error: kBadGeometry if no volume can have these sizes.
Result<Identity> plan_volume(std::uint64_t volume_bytes, std::uint64_t band_bytes);

// Destroys what the device holds: wipes the first and the last MiB, and makes the identification
// blocks, durable. An interruption leaves no volume, or the new one.
// REQUIRES: the caller has made sure that nothing of value is lost; identity.volume_bytes is the
// device's size at most.
// Errors: kDeviceMissing, kDeviceAccess, kDeviceBusy, kDeviceReadOnly, kDeviceZoned,
// kDeviceTruncated, kDeviceWrite, kDeviceFlush.
Result<> create(const std::string& path, const Identity& identity);

}  // namespace lazyfs::plain
