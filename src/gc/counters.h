// What garbage collection has done since the mount, for statistics.
#pragma once

#include <atomic>
#include <cstdint>

namespace lazyfs::gc {

struct Counters {
  std::atomic<std::uint64_t> blocks_moved{0};
  std::atomic<std::uint64_t> bands_reset{0};
  std::atomic<std::uint64_t> bands_cleaned{0};  // whole
  std::atomic<std::uint64_t> tails_cleaned{0};
  std::atomic<std::uint64_t> bands_waited_for{0};  // cleaned by a writer that found no room
};

}  // namespace lazyfs::gc
