// When background work that has failed is tried again.
#pragma once

#include <algorithm>
#include <chrono>

namespace lazyfs::fs {

// Then the work is left to the next mount. All pauses together take some 17 minutes.
inline constexpr int kMostFailures = 11;

// The pause after the given number of failures: a second, and twice as long after each further one.
constexpr std::chrono::nanoseconds pause_after(int failures) {
  return std::chrono::seconds(1) * (1 << std::clamp(failures - 1, 0, kMostFailures));
}

}  // namespace lazyfs::fs
