// Limits the reports of a frequent event to one in each period.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace lazyfs {

// Thread-safe. mu_ is a leaf lock.
class RateLimit {
 public:
  explicit RateLimit(std::chrono::nanoseconds period) : period_(period) {}

  // The caller calls it for each event, with the monotonic time. Returns nullopt if this event must
  // not be reported, else the number of events since the last report, including this one.
  std::optional<std::uint64_t> note(std::chrono::nanoseconds now) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++events_;
    if (reported_at_ && now - *reported_at_ < period_) return std::nullopt;
    reported_at_ = now;
    return std::exchange(events_, 0);
  }

 private:
  const std::chrono::nanoseconds period_;
  Mutex mu_;
  std::optional<std::chrono::nanoseconds> reported_at_ GUARDED_BY(mu_);
  std::uint64_t events_ GUARDED_BY(mu_) = 0;  // since the last report
};

}  // namespace lazyfs
