// Time as a parameter: lazyfs reads a Clock, and tests pass a clock that they set.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace lazyfs {

// Wall-clock time as inodes store it: seconds since 1970 (negative before 1970) plus nanoseconds
// (0 to 999,999,999).
struct Timestamp {
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;
  friend constexpr auto operator<=>(const Timestamp&, const Timestamp&) = default;
};

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Timestamp now() = 0;                      // wall clock
  virtual std::chrono::nanoseconds monotonic() = 0;  // never goes back; origin unspecified
};

// The kernel's clocks. now() reads CLOCK_REALTIME_COARSE, as Linux' own filesystems do.
Clock& system_clock();

}  // namespace lazyfs
