// How long requests took: mean, percentiles, maximum. Memory does not grow with their number: times
// are counted in buckets of 1 %. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace lazyfs::sim {

class Latencies {
 public:
  void add(double ms);
  std::uint64_t count() const { return count_; }
  double mean_ms() const;
  double max_ms() const { return max_ms_; }
  // The time that this share (0 to 1) of requests did not exceed, to 1 %; 0 without any.
  double percentile_ms(double share) const;

 private:
  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  double sum_ms_ = 0, max_ms_ = 0;
};

}  // namespace lazyfs::sim
