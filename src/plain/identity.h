// Finds, compares and writes the two identification blocks of a plain block device.
#pragma once

#include "base/result.h"
#include "device/backing.h"
#include "plain/identity_format.h"

namespace lazyfs::plain {

// The first block counts if it is good, else the copy. They differ after a power cut between the
// two writes of write_identity().
struct FoundIdentity {
  Identity identity;
  bool first_is_good = false;
  bool copy_is_current = false;  // the copy equals `identity`
};

// Looks at the first block and, at the end of the volume, at the copy. If the first block is not
// good, the volume is taken to end where the device does.
// Errors: kIdentityMissing, kIdentityBad when a block is there but neither is good, kDeviceRead.
Result<FoundIdentity> find_identity(const device::Backing& backing);

// Writes both blocks: first the copy, then the other one, each durable before the next, so that
// there is a good one at any moment. REQUIRES: the volume lies within the device.
// Errors: kDeviceWrite, kDeviceNoSpace, kDeviceFlush.
Result<> write_identity(const device::Backing& backing, const Identity& identity);

}  // namespace lazyfs::plain
