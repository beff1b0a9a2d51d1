#include "sim/latencies.h"

#include <algorithm>
#include <cmath>

namespace lazyfs::sim {
namespace {

constexpr double kLeastMs = 1e-4;
constexpr double kLogStep = 0.01;

}  // namespace

void Latencies::add(double ms) {
  const double above = std::log(std::max(ms, kLeastMs) / kLeastMs) / kLogStep;
  const auto bucket = static_cast<std::size_t>(std::lround(above));
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  ++buckets_[bucket];
  ++count_;
  sum_ms_ += ms;
  max_ms_ = std::max(max_ms_, ms);
}

double Latencies::mean_ms() const {
  return count_ == 0 ? 0 : sum_ms_ / static_cast<double>(count_);
}

double Latencies::percentile_ms(double share) const {
  if (count_ == 0) return 0;
  const double wanted = share * static_cast<double>(count_);
  double seen = 0;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += static_cast<double>(buckets_[bucket]);
    if (seen >= wanted && buckets_[bucket] > 0) {
      const double value = kLeastMs * std::exp(static_cast<double>(bucket) * kLogStep);
      return std::min(max_ms_, value);
    }
  }
  return max_ms_;
}

}  // namespace lazyfs::sim
