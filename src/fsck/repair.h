// Repairing a filesystem: makes everything agree again that check() compares, from what is there
// twice. docs/checking.md says what is believed when things disagree.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "device/device.h"
#include "fsck/check.h"
#include "meta/store/store.h"

namespace lazyfs::fsck {

struct RepairReport {
  std::uint64_t repairs = 0;          // changes made, each told
  std::uint64_t rebuilt_bands = 0;    // whose append log was written anew
  std::uint64_t salvaged_blocks = 0;  // of files, found again by the append logs
  std::uint64_t copied_blocks = 0;    // of files, which another file had as its own
  std::uint64_t lost_blocks = 0;      // of files: they were mapped, and read as zeros now
  std::uint64_t found_inodes = 0;     // brought into /lost+found
};

// Opens the store on `device` for repair(), its tree as whole as it can be made; what was done is
// told. What is lost is noted in it. Errors: those of meta::Store::repair().
Result<std::unique_ptr<meta::Store>> open_for_repair(device::Device& device,
                                                     const ProblemListener& told,
                                                     const meta::StoreOptions& options = {
                                                         .background = false});

// Notes in the volume where items may have been lost, for this repair or, should it be interrupted,
// the next one. Errors: those of Store::apply().
Result<> note_lost_ranges(meta::Store& store, const std::vector<meta::KeyRange>& lost);

// Repairs the volume in `store`, opened for writing, which lies on `device`; nobody else may use
// it. Each change is told to `told` as one sentence. Everything is durable on return, and check()
// finds nothing any more but what is told there: damaged file contents, a device that fails.
//
// What can be read before can be read afterwards, with the same contents.
//
// Memory: as check(), 8 bytes for each shared inode, what one shared inode has, and 24 bytes for
// each extent of bands whose append log is written anew, in pieces of at most 4 million.
// Errors: those of Store::apply() and of the device's report().
Result<RepairReport> repair(meta::Store& store, device::Device& device, Clock& clock,
                            const ProblemListener& told, const ProgressListener& progress = {});

}  // namespace lazyfs::fsck
