// Repairing a filesystem: makes everything that check() compares agree again, from what is stored
// twice. docs/checking.md says which of two that disagree is trusted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "device/device.h"
#include "fsck/check.h"
#include "meta/store/store.h"

namespace lazyfs::fsck {

// What a repair could not give back: parts of an inode, or a name whose inode does not exist.
struct Loss {
  InodeNo inode;
  std::uint64_t blocks = 0;  // of the file, which read as zeros now
  std::string other{};       // other parts of the inode, in words
  InodeNo directory{};       // of a wholly lost inode: where its name was
  std::string path{};        // "" when no name leads to it

  bool is_whole() const { return blocks == 0 && other.empty(); }  // the whole inode is lost
};
// "12 KiB, which read as zeros; owner, mode and times": the parts that are lost. "" of a whole
// inode.
std::string lost_parts(const Loss& loss);
inline constexpr std::size_t kMaxLosses = 100'000;

struct [[nodiscard]] RepairReport {
  // Success: everything is durable. After a failure the other fields count what was done before it,
  // of which any part may be durable. Errors: those of Store::apply() and of the device's report().
  Result<> result;
  std::uint64_t repairs = 0;          // sentences reported
  std::uint64_t rebuilt_bands = 0;    // whose append log was rebuilt
  std::uint64_t salvaged_blocks = 0;  // of files, recovered by the append logs
  std::uint64_t copied_blocks = 0;    // of files, which belonged to another file too
  std::uint64_t lost_blocks = 0;      // of files: they read as zeros now
  std::uint64_t found_inodes = 0;     // brought into /lost+found
  // After a failure: all losses, or none if the failure came before their paths were known.
  std::uint64_t losses_counted = 0;
  std::vector<Loss> losses{};  // the first kMaxLosses, in the order in which they were found
};

// Opens the store on `device` for repair(): rebuilds what it can of the tree, reports each change,
// and notes in the volume which ranges of keys are lost. Errors: those of meta::Store::repair().
Result<std::unique_ptr<meta::Store>> open_for_repair(device::Device& device,
                                                     const FindingListener& listener,
                                                     const meta::StoreOptions& options = {
                                                         .background = false});

// Records in the volume where items may have been lost, for this repair, or for the next one if
// this one is interrupted. Errors: those of Store::apply().
Result<> note_lost_ranges(meta::Store& store, const std::vector<meta::KeyRange>& lost);

// Repairs the volume in `store`, opened for writing, which lies on `device`. Reports each
// finding as check() does, with what was done about it, and what else that has changed. After a
// success check() finds nothing but damaged file contents and failures of the device. REQUIRES:
// nothing else uses it.
//
// Files that can be read before can be read afterwards, with the same contents. Everything else
// that existed is among the losses; so is what may have existed where metadata is lost.
//
// Memory: as check(), 8 bytes for each shared-extent inode, the reference counts of one
// shared-extent inode, kMaxLosses losses with their paths, and 24 bytes for each extent of bands
// whose append log is rebuilt, at most 4 million at a time.
RepairReport repair(meta::Store& store, device::Device& device, Clock& clock,
                    const FindingListener& listener, const ProgressListener& progress = {});

}  // namespace lazyfs::fsck
