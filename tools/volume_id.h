// Recognises a lazyfs without opening it, as udev and blkid do with other filesystems.
#pragma once

#include <string>

#include "base/result.h"
#include "meta/log/superblock.h"

namespace lazyfs {

struct VolumeId {
  meta::Uuid uuid{};
  std::string label;
  std::string version;  // "1" of plain block devices, "zoned", "edi0" and "edi1" of image files
};

// Reads two blocks of a plain block device; of an image file also its header, pointers and
// superblocks; of a zoned device its zones and superblocks. Writes nothing and claims nothing.
// Errors: kIdentityMissing (no lazyfs), kDeviceMissing, kDeviceAccess, kDeviceRead.
Result<VolumeId> identify(const std::string& path);

// The lines that udev imports: NAME=VALUE, each with a newline. Characters that could harm a reader
// of the text are replaced; values whose names end in _ENC have them escaped.
std::string udev_properties(const VolumeId& id);

}  // namespace lazyfs
