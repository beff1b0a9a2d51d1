#include "gc/pacer.h"

namespace lazyfs::gc {
namespace {

constexpr auto kRateFades = std::chrono::seconds(5);

}  // namespace

Pacer::Pacer(const data::BandTable& bands, const PacerOptions& options, Clock& clock)
    : bands_(bands), clock_(clock) {
  set_options(options);
}

void Pacer::set_options(const PacerOptions& options) {
  triggers_ = {options.on_idle, options.on_space, options.low_percent, options.high_percent};
  quiet_for_ = options.idle.quiet_for;
  pause_ = options.idle.pause;
  rate_below_ = options.idle.rate_below;
}

Pacer::Room Pacer::room() const {
  const data::SpaceCounts space = bands_.space();
  const Triggers triggers = triggers_;
  const std::uint64_t not_free = space.reserved + bands_.reserve_blocks();
  return {.blocks = space.unwritten > not_free ? space.unwritten - not_free : 0,
          .dead_blocks = space.dead,
          .limits = thresholds(space.total, space.total - space.live, triggers.low_percent,
                               triggers.high_percent)};
}

std::chrono::nanoseconds Pacer::since_last_request() const {
  const std::chrono::nanoseconds last(last_request_.load(std::memory_order_relaxed));
  return clock_.monotonic() - last;
}

bool Pacer::is_quiet() const { return since_last_request() >= pause_.load(); }

CleanPriority Pacer::priority() const {
  return triggers_.load().on_space ? room().priority() : CleanPriority::kNone;
}

bool Pacer::is_idle_cleaning_due() {
  if (!triggers_.load().on_idle) return false;
  const auto now = clock_.monotonic();
  const std::uint64_t arrived = arrived_blocks_.load(std::memory_order_relaxed);
  arrival_rate_ =
      average_rate(arrival_rate_, arrived - arrived_before_, now - averaged_until_, kRateFades);
  arrived_before_ = arrived;
  averaged_until_ = now;
  if (!is_idle({.since_last_request = since_last_request(), .arrival_rate = arrival_rate_},
               {.quiet_for = quiet_for_, .rate_below = rate_below_, .pause = pause_})) {
    return false;
  }
  // The low threshold holds here too: what users wrote last dies soonest, and is left alone as long
  // as there is room.
  return room().priority() != CleanPriority::kNone;
}

std::chrono::nanoseconds Pacer::delay(std::uint64_t blocks) {
  arrived_blocks_.fetch_add(blocks, std::memory_order_relaxed);
  if (!triggers_.load().on_space) return {};
  const Room now = room();
  if (now.priority() != CleanPriority::kHigh) return {};
  return throttle_delay(now.blocks, blocks, {.start_blocks = now.limits.high_blocks});
}

}  // namespace lazyfs::gc
