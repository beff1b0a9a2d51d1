// Counters of calls, and of the bytes that reads and writes moved.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "profiler/call.h"

namespace lazyfs::profiler {

// Class 0 is of calls that moved nothing; class i > 0 of calls that moved more than 2^(i-2) and at
// most 2^(i-1) bytes: 1, 2, 3 to 4, 5 to 8, ...
constexpr std::size_t kSizeClasses = 34;  // a request moves less than 4 GiB

std::size_t size_class(std::uint64_t bytes);
// The size of the class' largest calls.
std::uint64_t largest_of_class(std::size_t size_class);

struct Sizes {
  std::array<std::uint64_t, kSizeClasses> calls{};  // by class
  std::uint64_t bytes = 0;
};

// What was counted in one span of time.
struct Totals {
  std::array<std::uint64_t, kCallCount> calls{};  // by Call
  Sizes reads, writes;                            // of those that succeeded
  std::uint64_t requests = 0;                     // of the kernel, without FORGET

  std::uint64_t all_calls() const;
};

// Thread-safe, without a lock.
class Counts {
 public:
  // With is_on false nothing is counted.
  explicit Counts(bool is_on = true) : is_on_(is_on) {}

  // Counts one request of the kernel, and the calls that the high-level library would make for it.
  void count(std::initializer_list<Call> calls);
  // Counts one more call for a request that is counted already.
  void count_more(Call call);
  void count_read(std::uint64_t bytes) {
    if (is_on_) add(reads_, bytes);
  }
  void count_write(std::uint64_t bytes) {
    if (is_on_) add(writes_, bytes);
  }

  // Returns what was counted since the last take(). A request that another thread counts meanwhile
  // may be divided between this span and the next one; nothing is lost or counted twice.
  Totals take();

 private:
  struct AtomicSizes {
    std::array<std::atomic<std::uint64_t>, kSizeClasses> calls{};
    std::atomic<std::uint64_t> bytes{0};
  };
  static void add(AtomicSizes& to, std::uint64_t bytes);
  static Sizes take(AtomicSizes& from);

  const bool is_on_;
  std::array<std::atomic<std::uint64_t>, kCallCount> calls_{};
  AtomicSizes reads_, writes_;
  std::atomic<std::uint64_t> requests_{0};
};

}  // namespace lazyfs::profiler
