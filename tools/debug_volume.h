// A volume as lazyfs-debug reads it: from its device, which nothing is ever written to.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "device/device.h"
#include "fs/volume/volume.h"
#include "fsck/repair.h"

namespace lazyfs {

// All functions throw std::runtime_error("what: why").

std::unique_ptr<device::Device> open_to_look(const std::string& path);

// Gets a volume, and the report of its repair: an empty one if it was not repaired.
using VolumeUse = std::function<void(fs::Volume&, const fsck::RepairReport&)>;

// Mounts what is on `device` for reading, and calls `use`. With `repaired`, or if the volume cannot
// be mounted without it, first repairs the volume in memory, as fsck.lazyfs -y would do on the
// disk; each repair is printed to standard error.
void use_volume(device::Device& device, bool repaired, const VolumeUse& use);

// The inode that `where` names: a number, or a path from the root. Takes a lookup on it.
fs::Attributes find_inode(fs::Volume& volume, const std::string& where);

}  // namespace lazyfs
