// The data that the batches of the running transaction brought: blocks that were appended to data
// bands, and may not be durable. docs/metadata-log.md, "Data".
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/types.h"
#include "meta/log/log_format.h"
#include "meta/tree/batch.h"

namespace lazyfs::meta {

// Invariants, while can_be_named():
//   B1  runs_ has every block that a batch brought; runs do not overlap, and blocks that batches
//       brought one after the other are one run
//   B2  no block of runs_ was dropped by a later batch: each is live when the transaction is sealed
//   B3  at most kMaxUnprovenBlocks blocks, in at most kMaxUnprovenRuns runs
// Not thread-safe: SharedTree's lock guards it.
class BroughtData {
 public:
  // Adds the data of a batch that was applied. If memory lacks, no data can be named any more.
  void add(const Batch& batch);
  // False: the transaction names no data, and is written after a flush.
  bool can_be_named() const { return can_be_named_; }
  // Entries of kind kData. REQUIRES: can_be_named().
  std::vector<DescriptorEntry> entries() const;

 private:
  struct Run {
    std::uint32_t blocks = 0;
    std::uint32_t crc = 0;  // add_block_crc() of all blocks
  };
  void add_run(const Batch::Blocks& brought);
  bool has_any(const Batch::Blocks& dropped) const;
  void give_up();

  std::map<BandAddress, Run> runs_;  // by the first block
  std::uint64_t blocks_ = 0;
  bool can_be_named_ = true;
};

}  // namespace lazyfs::meta
