// Time, as a parameter: product code asks a Clock, tests turn one by hand.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace lazyfs {

// Wall-clock time as inodes keep it: seconds since 1970 (negative before), and nanoseconds
// 0..999,999,999 to add.
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

// The machine's clocks. The wall clock is the kernel's coarse one, as for its own filesystems.
Clock& system_clock();

}  // namespace lazyfs
