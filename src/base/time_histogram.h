// A histogram of times. A percentile is at most a quarter too long.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace lazyfs {

// Four buckets for each power of two, one for each time below 8 ns: 252 counters, 2 KiB.
// Thread-safe, without locks. A read may miss additions that other threads make at the same time.
class TimeHistogram {
 public:
  void add(std::chrono::nanoseconds time) {
    const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
    buckets_[bucket_of(ns)].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(ns, std::memory_order_relaxed);
    std::uint64_t longest = max_ns_.load(std::memory_order_relaxed);
    while (ns > longest && !max_ns_.compare_exchange_weak(longest, ns)) {
    }
  }
  std::uint64_t count() const { return count_below(buckets_.size()); }
  std::uint64_t sum_ns() const { return sum_ns_.load(std::memory_order_relaxed); }
  std::uint64_t max_ns() const { return max_ns_.load(std::memory_order_relaxed); }
  // How many times were less than 2^power ns. REQUIRES: 3 <= power <= 63.
  std::uint64_t count_below_power(unsigned power) const {
    return count_below(bucket_of(std::uint64_t{1} << power));
  }
  // The time that `share` (0 to 1) of the times did not exceed, rounded up to the end of its
  // bucket but at most max_ns(). 0 when nothing was added.
  std::uint64_t percentile_ns(double share) const {
    const double wanted = share * static_cast<double>(count());
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      sum += buckets_[i].load(std::memory_order_relaxed);
      if (sum > 0 && static_cast<double>(sum) >= wanted) return std::min(end_of(i), max_ns());
    }
    return max_ns();
  }

 private:
  std::uint64_t count_below(std::size_t bucket) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < bucket; ++i) sum += buckets_[i].load(std::memory_order_relaxed);
    return sum;
  }
  static std::size_t bucket_of(std::uint64_t ns) {
    if (ns < 8) return ns;
    const auto power = static_cast<std::size_t>(std::bit_width(ns)) - 1;  // 3 to 63
    return 8 + (power - 3) * 4 + ((ns >> (power - 2)) & 3);
  }
  static std::uint64_t end_of(std::size_t bucket) {
    if (bucket < 8) return bucket;
    const std::size_t power = 3 + (bucket - 8) / 4;
    return (std::uint64_t{1} << power) + (((bucket - 8) % 4 + 1) << (power - 2)) - 1;
  }

  std::array<std::atomic<std::uint64_t>, 8 + 61 * 4> buckets_{};
  std::atomic<std::uint64_t> sum_ns_{0}, max_ns_{0};
};

}  // namespace lazyfs
