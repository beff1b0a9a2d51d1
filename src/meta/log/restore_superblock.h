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

// If the log cannot be opened with any superblock that exists, writes a new one and reports that;
// else does nothing. If no superblock exists, the label and the time of mkfs are lost. The new
// superblock does not list log bands that the device has taken offline: the log continues from the
// newest transaction that the other bands hold. Reads every block of the log twice.
// `named`: the volume's UUID according to the device. If no superblock exists, only the log with
// this UUID counts. If no log has this UUID, only the log with the newest sessions counts.
// Errors: kNoFilesystem when no log exists either, kSuperblockBad when it is not known which log is
// the newest, kSuperblockVersion, those of the device.
Result<> restore_superblock(device::Device& device, const std::optional<Uuid>& named,
                            const std::function<void(std::string)>& report);

// The super bands that do not end with the newest record. An older record may name log bands that
// now hold file data.
// Each opening for writing puts a new record into both bands. REQUIRES: the filesystem can be
// opened.
Result<std::vector<BandId>> damaged_superblocks(device::Device& device);

}  // namespace lazyfs::meta
