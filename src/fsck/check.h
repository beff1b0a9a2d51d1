// Checking a filesystem: reads everything, changes nothing, and reports every disagreement.
// docs/checking.md lists what must agree.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "device/device.h"
#include "meta/store/store.h"

namespace lazyfs::fsck {

struct CheckOptions {
  bool data = false;  // read every live block and verify its checksum
};

struct CheckReport {
  std::uint64_t problems = 0;
  bool complete = true;  // all metadata could be read; if not, some passes were left out

  std::uint64_t nodes = 0;  // of the metadata tree
  std::uint64_t items = 0;
  std::uint64_t inodes = 0;  // of these ...
  std::uint64_t directories = 0;
  std::uint64_t shared_inodes = 0;
  std::uint64_t names = 0;
  std::uint64_t orphans = 0;  // inodes that the next mount deletes or truncates
  std::uint64_t extents = 0;
  std::uint64_t references = 0;  // items, each of up to 128 blocks
  std::uint64_t live_blocks = 0;
  std::uint64_t shared_blocks = 0;     // of the live ones: those of shared-extent inodes
  std::uint64_t reference_blocks = 0;  // of files, which references map
  std::uint64_t dead_blocks = 0;
  // Written but in no account: appended by a session that crashed, free again after the next mount.
  std::uint64_t unaccounted_blocks = 0;
  std::uint64_t verified_blocks = 0;  // data blocks read, with `data`
};

// Gets each finding as one sentence.
using FindingListener = std::function<void(const std::string&)>;
// How many nodes, inodes, items or blocks a stage has read.
struct StageProgress {
  std::uint64_t done = 0;
  std::uint64_t total = 0;  // 0: unknown; on a damaged volume it may be wrong
};
// Gets, now and then, which stage runs ("nodes", "volume", "inodes", "bands", "shared extents",
// "names", "data").
using ProgressListener = std::function<void(std::string_view stage, StageProgress progress)>;

// Reads the volume in `store`, which lies on `device`. REQUIRES: nothing changes it meanwhile.
//
// Memory: 24 bytes for each inode and each name, 16 for each orphan, 24 for each run of references
// (References), one bit for each block of the bands that are written, one band's append log, and
// one inode's attributes; nothing that grows with a file. Wrong names and references take more:
// docs/checking.md.
//
// Disagreements and damaged metadata are findings, not errors. Errors: those of Device::report().
Result<CheckReport> check(meta::Store& store, device::Device& device, const CheckOptions& options,
                          const FindingListener& listener, const ProgressListener& progress = {});

}  // namespace lazyfs::fsck
