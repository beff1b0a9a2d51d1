#include "gc/trigger.h"

#include <algorithm>
#include <cmath>

namespace lazyfs::gc {
namespace {

using Seconds = std::chrono::duration<double>;

}  // namespace

Thresholds thresholds(std::uint64_t total_blocks, std::uint64_t slack_blocks, unsigned low_percent,
                      unsigned high_percent) {
  return {std::min(total_blocks / 100 * low_percent, slack_blocks / 4),
          std::min(total_blocks / 100 * high_percent, slack_blocks / 8)};
}

CleanPriority clean_priority(std::uint64_t room_blocks, std::uint64_t dead_blocks,
                             const Thresholds& limits) {
  if (dead_blocks == 0) return CleanPriority::kNone;
  if (room_blocks < limits.high_blocks) return CleanPriority::kHigh;
  if (room_blocks < limits.low_blocks) return CleanPriority::kLow;
  return CleanPriority::kNone;
}

double average_rate(double average, std::uint64_t arrived_blocks, std::chrono::nanoseconds elapsed,
                    std::chrono::nanoseconds time_constant) {
  if (elapsed.count() <= 0) return average;
  const double rate = static_cast<double>(arrived_blocks) / Seconds(elapsed).count();
  if (time_constant.count() <= 0) return rate;
  const double kept = std::exp(-Seconds(elapsed) / Seconds(time_constant));
  return kept * average + (1 - kept) * rate;
}

bool is_idle(const IdleSigns& signs, const IdleLimits& limits) {
  if (signs.since_last_request < limits.pause) return false;
  return signs.since_last_request >= limits.quiet_for || signs.arrival_rate < limits.rate_below;
}

std::chrono::nanoseconds throttle_delay(std::uint64_t room_blocks, std::uint64_t blocks,
                                        const ThrottleLimits& limits) {
  if (room_blocks >= limits.start_blocks) return std::chrono::nanoseconds{0};
  double used_up = 1;
  if (room_blocks > limits.reserve_blocks) {  // then start_blocks > reserve_blocks
    used_up = static_cast<double>(limits.start_blocks - room_blocks) /
           static_cast<double>(limits.start_blocks - limits.reserve_blocks);
  }
  const double delay_ns = used_up * used_up * static_cast<double>(blocks) *
                          static_cast<double>(limits.max_delay_a_block.count());
  const auto longest_ns = static_cast<double>(limits.max_delay.count());
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(delay_ns, longest_ns)));
}

}  // namespace lazyfs::gc
