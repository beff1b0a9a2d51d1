// Time as a parameter: lazyfs reads a Clock, and tests pass a clock that they set.
#pragma once

#include <atomic>
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

// Nanoseconds since 1970. Times before 1678 or after 2262 become the first or the last one.
constexpr std::int64_t to_nanoseconds(Timestamp time) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  if (time.seconds < INT64_MIN / kSecond) return INT64_MIN;
  if (time.seconds >= INT64_MAX / kSecond) return INT64_MAX;
  return time.seconds * kSecond + time.nanoseconds;
}
constexpr Timestamp from_nanoseconds(std::int64_t ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t rest = ns % kSecond;  // below 0 before 1970
  if (rest < 0) return {ns / kSecond - 1, static_cast<std::uint32_t>(rest + kSecond)};
  return {ns / kSecond, static_cast<std::uint32_t>(rest)};
}

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Wall clock. Cheap. It advances in steps, so changes made shortly after each other get the same
  // time.
  virtual Timestamp now() = 0;
  // Wall clock, for a change that must look later than `shown`, a time that a program has seen. The
  // result is not later than `shown` if `shown` lies in the future.
  virtual Timestamp now_after(Timestamp /*shown*/) { return now(); }
  virtual std::chrono::nanoseconds monotonic() = 0;  // never goes back; origin unspecified
};

// Keeps the readings of a coarse and of a fine wall clock in one order ("multigrain" times, as
// Linux' own filesystems have them since 6.13).
//
// Invariants:
//   M1  a time that coarse() returns is not before any that fine() returned earlier
//   M2  a time that fine() returns is not before its reading, and after any that fine() returned
//       earlier
// When the machine's clock is set back by more than kMaxLagNs, both hold only among the times
// returned after that. Thread-safe, without a lock.
class MultigrainTimes {
 public:
  // How far the coarse clock may lag: a tick, or more when a virtual CPU waits.
  static constexpr std::int64_t kMaxLagNs = 1'000'000'000;

  Timestamp coarse(Timestamp reading);
  Timestamp fine(Timestamp reading);

 private:
  std::atomic<std::int64_t> floor_ns_{INT64_MIN};  // the latest time that fine() returned
};

// The kernel's clocks. now() reads CLOCK_REALTIME_COARSE, now_after() CLOCK_REALTIME where needed.
Clock& system_clock();
// CLOCK_REALTIME_COARSE alone, the kernel's clock of file times. For times that are compared with
// times set by the kernel, and must equal them or differ by at least a step.
Clock& coarse_clock();

}  // namespace lazyfs
