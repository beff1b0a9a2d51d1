// A superblock that is lost, from what the log says of itself.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "device/device.h"

namespace lazyfs::meta {

// Writes a new superblock when none is there that the log can be opened with, and says so; does
// nothing otherwise. The label and the time of mkfs are lost with it. Reads every block of the log.
// Errors: kNoFilesystem when there is no log either, kSuperblockVersion, what the device returns.
Result<> restore_superblock(device::Device& device, const std::function<void(std::string)>& told);

}  // namespace lazyfs::meta
