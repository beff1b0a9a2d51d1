// How often a test that repeats its load does so.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace lazyfs {

// `full`, or `fewer` where the load takes many times as long (a sanitizer), or where another run of
// the same test has `full` rounds (the tests of other devices).
inline std::size_t rounds(std::size_t full, std::size_t fewer) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static_cast<void>(full);
  return fewer;
#else
  return std::getenv("LAZYFS_TEST_DEVICE") == nullptr ? full : fewer;
#endif
}

}  // namespace lazyfs
