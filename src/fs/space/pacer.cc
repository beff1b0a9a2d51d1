#include "fs/space/pacer.h"

#include <algorithm>

namespace lazyfs::fs {
namespace {

constexpr auto kRateFades = std::chrono::seconds(5);
constexpr auto kMoment = std::chrono::milliseconds(100);

}  // namespace

Pacer::Room Pacer::look() const {
  Room room{.space = bands_.space()};
  const data::SpaceCounts& space = room.space;
  const std::uint64_t spoken_for = space.reserved + bands_.reserve_blocks();
  room.room_blocks = space.unwritten > spoken_for ? space.unwritten - spoken_for : 0;
  room.limits = gc::thresholds(space.total, space.unwritten + space.dead, options_.gc_low_percent,
                               options_.gc_high_percent);
  return room;
}

bool Pacer::is_quiet() const {
  const std::chrono::nanoseconds last(last_request_.load(std::memory_order_relaxed));
  return clock_.monotonic() - last >= kMoment;
}

gc::Urgency Pacer::urgency() const {
  if (!options_.gc_space) return gc::Urgency::kNone;
  const Room room = look();
  return gc::urgency(room.room_blocks, room.space.dead, room.limits);
}

bool Pacer::is_idle_work_due() {
  if (!options_.gc_idle) return false;
  const auto now = clock_.monotonic();
  const std::uint64_t arrived = arrived_blocks_.load(std::memory_order_relaxed);
  arrival_rate_ =
      gc::average_rate(arrival_rate_, arrived - arrived_before_, now - looked_at_, kRateFades);
  arrived_before_ = arrived;
  looked_at_ = now;
  const std::chrono::nanoseconds last(last_request_.load(std::memory_order_relaxed));
  const gc::IdleSigns signs{
      .requests_running = 0, .since_last_request = now - last, .arrival_rate = arrival_rate_};
  if (!gc::is_idle(signs, {.rate_below = 0})) return false;
  // The same low threshold: what users wrote last dies soonest, and is left alone as long as there
  // is room.
  const Room room = look();
  return gc::urgency(room.room_blocks, room.space.dead, room.limits) != gc::Urgency::kNone;
}

std::chrono::nanoseconds Pacer::delay(std::uint64_t blocks) {
  arrived_blocks_.fetch_add(blocks, std::memory_order_relaxed);
  if (!options_.gc_space) return {};
  const Room room = look();
  if (gc::urgency(room.room_blocks, room.space.dead, room.limits) != gc::Urgency::kHigh) return {};
  return gc::throttle_delay(room.room_blocks, blocks, {.start_blocks = room.limits.high_blocks});
}

}  // namespace lazyfs::fs
