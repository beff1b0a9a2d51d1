#include "profiler/counts.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace lazyfs::profiler {

std::size_t size_class(std::uint64_t bytes) {
  if (bytes == 0) return 0;
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(bytes - 1)) + 1,
                               kSizeClasses - 1);
}

std::uint64_t largest_of_class(std::size_t size_class) {
  return size_class == 0 ? 0 : std::uint64_t{1} << (size_class - 1);
}

std::uint64_t Totals::all_calls() const {
  return std::accumulate(calls.begin(), calls.end(), std::uint64_t{0});
}

void Counts::count(std::initializer_list<Call> calls) {
  if (!is_on_) return;
  requests_.fetch_add(1, std::memory_order_relaxed);
  for (const Call call : calls) count_more(call);
}

void Counts::count_more(Call call) {
  if (!is_on_) return;
  calls_[static_cast<std::size_t>(call)].fetch_add(1, std::memory_order_relaxed);
}

void Counts::add(AtomicSizes& to, std::uint64_t bytes) {
  to.calls[size_class(bytes)].fetch_add(1, std::memory_order_relaxed);
  to.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

Sizes Counts::take(AtomicSizes& from) {
  Sizes sizes;
  for (std::size_t i = 0; i < kSizeClasses; ++i) {
    sizes.calls[i] = from.calls[i].exchange(0, std::memory_order_relaxed);
  }
  sizes.bytes = from.bytes.exchange(0, std::memory_order_relaxed);
  return sizes;
}

Totals Counts::take() {
  Totals totals;
  for (std::size_t i = 0; i < kCallCount; ++i) {
    totals.calls[i] = calls_[i].exchange(0, std::memory_order_relaxed);
  }
  totals.reads = take(reads_);
  totals.writes = take(writes_);
  totals.requests = requests_.exchange(0, std::memory_order_relaxed);
  return totals;
}

}  // namespace lazyfs::profiler
