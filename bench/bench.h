// Common functions of the benchmark programs.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace lazyfs::bench {

inline double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Ends the program if `good` is false.
inline void must(bool good, const std::string& what) {
  if (good) return;
  std::fprintf(stderr, "%s: failed: %s\n", program_invocation_short_name, what.c_str());
  std::exit(1);
}

// Returns the value of the result. Ends the program if the result is an error.
template <class T>
T must(Result<T> result, const std::string& what) {
  if (!result) must(false, what + ": " + std::string(describe(result.error())));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Drops the kernel's caches, so that the next reads come from the device. Ignores errors.
inline void drop_caches() {
  ::sync();
  const int fd = ::open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const auto written = ::write(fd, "3", 1);
  ::close(fd);
}

}  // namespace lazyfs::bench
