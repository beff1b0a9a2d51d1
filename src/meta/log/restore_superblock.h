// Rebuilds a lost superblock from the log, and finds damaged ones.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "meta/log/superblock.h"

namespace lazyfs::meta {

// Writes a new superblock when the log cannot be opened with any that exists, and reports it; does
// nothing otherwise. When no superblock exists, its label and the time of mkfs are lost. The new
// one does not list bands of the log that the device has taken offline: the log continues from the
// newest transaction that the other bands hold. Reads every block of the log.
// `named`: the volume's UUID according to the device. When no superblock exists, the log with this
// UUID counts, and no other one. If no log has it, the log with the newest session counts that can
// be recovered.
// Errors: kNoFilesystem when no log exists either, kSuperblockVersion, what the device returns.
Result<> restore_superblock(device::Device& device, const std::optional<Uuid>& named,
                            const std::function<void(std::string)>& report);

// Bands of superblocks whose last block is not the newest record. An older one may name bands of
// the log that hold file data by now.
// Each opening for writing puts a new record into both bands. Requires a filesystem that can be
// opened.
Result<std::vector<BandId>> damaged_superblocks(device::Device& device);

}  // namespace lazyfs::meta
