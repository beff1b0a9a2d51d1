// Finds the newest whole transaction in the log and walks back from it, to the newest intact
// checkpoint of the map, or to the tail. Only reads.
//
// Why this is right after any crash (docs/metadata-log.md has it at length): a transaction begins
// to be written only when everything before it is durable, so at most the last one is torn. It is
// verified block by block, with the data that it names. Parts are chained backwards, so torn
// transactions, which no later part names, are never reached. A leftover of an earlier session that
// reappears carries a session and a seq that the superblock rules out.
//
// If the newest transaction fails its checksums, and the transactions before it cannot be
// recovered, it counts nevertheless: then it was durable, and bands have been reset since.
//
// A block counts as damaged only after a second read, from the medium.
//
// The header of a band gives its slot in the log. If the header is damaged, another block gives it.
#pragma once

#include "base/result.h"
#include "device/device.h"
#include "meta/log/recovered_log.h"
#include "meta/log/superblock.h"

namespace lazyfs::meta {

// Errors: kSuperblockBad when the log is newer than the superblock; kLogTailLost when no whole
// transaction is found, when the newest one is older than what the superblock says was durable, or
// when a part that is needed is missing; kLogDescriptorBad when such a part is damaged, copy and
// all; what the device returns.
Result<RecoveredLog> recover_log(device::Device& device, const Superblock& superblock);

}  // namespace lazyfs::meta
