// Finds, compares and writes the two identification blocks of a plain block device.
#pragma once

#include "base/result.h"
#include "device/backing.h"
#include "plain/identity_format.h"

namespace lazyfs::plain {

// The identity comes from the first block, or from the copy when the first block is damaged. The
// two blocks differ after a power cut between the two writes of write_identity().
struct FoundIdentity {
  Identity identity;
  bool first_is_good = false;
  bool copy_is_current = false;  // the copy equals `identity`
};

// Reads the first block, and the copy at the end of the volume. If the first block is damaged, the
// copy is sought at the end of the device.
// Errors: kIdentityMissing when neither place has the magic of such a block, kIdentityBad when one
// or both have the magic and neither is valid, kDeviceRead.
Result<FoundIdentity> find_identity(const device::Backing& backing);

// Writes the copy, then the first block, each durable before the next. So at any moment one of them
// is intact. REQUIRES: the volume lies within the device.
// Errors: kDeviceWrite, kDeviceNoSpace, kDeviceFlush.
Result<> write_identity(const device::Backing& backing, const Identity& identity);

}  // namespace lazyfs::plain
