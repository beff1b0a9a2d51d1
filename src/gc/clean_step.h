// What cleaning on demand would do, and what a step of it has done.
#pragma once

#include <cstdint>

namespace lazyfs::gc {

// An upper limit: cleaning ends of bands moves less.
struct CleanEstimate {
  std::uint64_t bands = 0;        // with enough dead blocks
  std::uint64_t live_blocks = 0;  // of these: to be moved
  std::uint64_t dead_blocks = 0;  // of these: gained
};

struct CleanStep {
  bool is_done = false;  // no band has enough dead blocks
  std::uint64_t blocks_moved = 0;
  std::uint64_t bands_cleaned = 0;  // wholly, or their ends
  std::uint64_t bands_freed = 0;
};

}  // namespace lazyfs::gc
