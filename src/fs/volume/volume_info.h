// The description of a volume for people: from its superblock, its device and its options.
#pragma once

#include "base/json.h"
#include "device/device.h"
#include "fs/volume/volume.h"
#include "meta/log/superblock.h"

namespace lazyfs::fs {

// `state` says how the last session ended; `options` is empty.
VolumeInfo describe_volume(const meta::Superblock& superblock, const device::Geometry& geometry);
// As they are given to -o, in their order there.
std::string describe_options(const MountOptions& options);

// The keys are INTERFACE: see docs/man/lazyfsctl.8.
Json to_json(const VolumeInfo& info);

}  // namespace lazyfs::fs
