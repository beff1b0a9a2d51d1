// Makes the layout of a plain block device: identification blocks, and empty bands.
#pragma once

#include <string>

#include "base/result.h"
#include "device/backing.h"
#include "plain/identity_format.h"

namespace lazyfs::plain {

// The identity of an empty volume that fills `volume_bytes`: as many bands of `band_bytes` as fit,
// the first and the last one for superblocks. The caller sets the uuid, the label and the times.
// Error: kBadGeometry if no volume can have these sizes.
Result<Identity> plan_volume(std::uint64_t volume_bytes, std::uint64_t band_bytes);

// Destroys what the device holds. Wipes the first and the last whole MiB of the volume, and up to a
// MiB past it; then writes the identification blocks. Durable on return. An interruption leaves no
// volume, or the new one.
// REQUIRES: the caller has made sure that nothing of value is lost; identity.volume_bytes is at
// most the device's size.
// Errors: kDeviceMissing, kDeviceAccess, kDeviceBusy, kDeviceReadOnly, kDeviceZoned,
// kDeviceTruncated, kDeviceWrite, kDeviceFlush.
Result<> create(const std::string& path, const Identity& identity);
// The same on a device that the caller has opened for writing, and has claimed.
Result<> create(const device::Backing& backing, const Identity& identity);

}  // namespace lazyfs::plain
