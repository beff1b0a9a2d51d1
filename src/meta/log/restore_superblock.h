// A superblock that is lost, from what the log says of itself; and one of two that is damaged.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"

namespace lazyfs::meta {

// Writes a new superblock when none is there that the log can be opened with, and says so; does
// nothing otherwise. Where none at all is left, the label and the time of mkfs are lost with it.
// Bands of the log that the device has taken offline are left out of the new one: the log goes on
// from the newest transaction that the others hold. Reads every block of the log.
// Errors: kNoFilesystem when there is no log either, kSuperblockVersion, what the device returns.
Result<> restore_superblock(device::Device& device, const std::function<void(std::string)>& told);

// Bands of superblocks whose last block is no record: it has rotted, or a power cut has torn it.
// Each opening for writing puts a new record into both bands. Requires a filesystem that can be
// opened.
Result<std::vector<BandId>> damaged_superblocks(device::Device& device);

}  // namespace lazyfs::meta
