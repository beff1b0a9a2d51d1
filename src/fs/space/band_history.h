// The appends to a band since its last reset, and which of their blocks have died, by the band's
// append and delete logs. For administrators.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Blocks that were appended at once.
struct BandAppend {
  // The file that they were written for, or the shared-extent inode that owns them. 0: a crash or a
  // failed append left the blocks without a file.
  InodeNo inode;
  std::uint64_t file_block = 0;
  std::uint32_t rba = 0;
  std::uint32_t blocks = 0;
  std::uint32_t dead = 0;  // of these
  friend bool operator==(const BandAppend&, const BandAppend&) = default;
};

struct DeadBlocks {
  std::uint32_t rba = 0, blocks = 0;
  friend bool operator==(const DeadBlocks&, const DeadBlocks&) = default;
};

struct BandHistory {
  std::vector<BandAppend> appends;  // in the order of the band, which is that of time
  std::vector<DeadBlocks> dead;     // in the order of the band
};

// Errors: kItemBad, and those of reading the tree. REQUIRES: the store does not change meanwhile.
Result<BandHistory> history_of(meta::Store& store, BandId band);

}  // namespace lazyfs::fs
