// What a device stores twice, whatever its kind: headers, pointer tables, identification blocks.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"

namespace lazyfs::disk {

// A sentence for each damaged copy.
struct DamagedCopies {
  std::vector<std::string> never_written;  // while the volume is used: damage is a problem
  // Damage may be harmless: a power cut may tear a copy that is being written, or come before the
  // second copy is written.
  std::vector<std::string> often_written;
};

// REQUIRES for both: the device comes from disk::open(), and nothing else writes to the device
// during the call.
Result<DamagedCopies> damaged_copies(device::Device& device);
// Rewrites each damaged copy from the intact one, and returns a sentence for each. REQUIRES: the
// device is open for writing.
Result<std::vector<std::string>> mend_copies(device::Device& device);

}  // namespace lazyfs::disk
