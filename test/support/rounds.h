// How often a test that repeats its load does so.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace lazyfs {

// `full`, or `fewer` under a sanitizer, where the load takes many times as long. Of a stride, the
// arguments are the small one and the large one.
inline constexpr std::size_t rounds_of_build(std::size_t full, std::size_t fewer) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static_cast<void>(full);
  return fewer;
#else
  static_cast<void>(fewer);
  return full;
#endif
}

// `fewer`, or `full` with LAZYFS_ROUNDS=full, which `make check-long` sets.
inline std::size_t rounds(std::size_t full, std::size_t fewer) {
  const char* given = std::getenv("LAZYFS_ROUNDS");
  return given && std::string_view(given) == "full" ? full : fewer;
}

}  // namespace lazyfs
