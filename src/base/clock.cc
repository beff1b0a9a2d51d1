#include "base/clock.h"

#include <algorithm>
#include <ctime>

namespace lazyfs {
namespace {

timespec read_clock(clockid_t id) {
  timespec ts{};
  clock_gettime(id, &ts);
  return ts;
}

Timestamp read_wall_clock(clockid_t id) {
  const timespec ts = read_clock(id);
  return {ts.tv_sec, static_cast<std::uint32_t>(ts.tv_nsec)};
}

class CoarseClock : public Clock {
 public:
  Timestamp now() override { return read_wall_clock(CLOCK_REALTIME_COARSE); }
  std::chrono::nanoseconds monotonic() override {
    const timespec ts = read_clock(CLOCK_MONOTONIC);
    return std::chrono::seconds(ts.tv_sec) + std::chrono::nanoseconds(ts.tv_nsec);
  }
};

class SystemClock final : public CoarseClock {
 public:
  Timestamp now() override { return times_.coarse(CoarseClock::now()); }
  Timestamp now_after(Timestamp shown) override {
    const Timestamp coarse = now();
    return coarse > shown ? coarse : times_.fine(read_wall_clock(CLOCK_REALTIME));
  }

 private:
  MultigrainTimes times_;
};

}  // namespace

// Only fine times raise the floor, so that the cheap path writes nothing that threads share.
Timestamp MultigrainTimes::coarse(Timestamp reading) {
  const std::int64_t read_ns = to_nanoseconds(reading);
  std::int64_t floor_ns = floor_ns_.load(std::memory_order_acquire);
  if (read_ns >= floor_ns) return reading;
  if (read_ns >= floor_ns - kMaxLagNs) return from_nanoseconds(floor_ns);
  floor_ns_.compare_exchange_strong(floor_ns, read_ns, std::memory_order_acq_rel);  // set back
  return reading;
}

Timestamp MultigrainTimes::fine(Timestamp reading) {
  const std::int64_t read_ns = to_nanoseconds(reading);
  std::int64_t floor_ns = floor_ns_.load(std::memory_order_acquire);
  std::int64_t next_ns = 0;
  do {
    const bool set_back = floor_ns > INT64_MIN + kMaxLagNs && read_ns < floor_ns - kMaxLagNs;
    next_ns = set_back ? read_ns : std::max(read_ns, floor_ns + 1);
  } while (!floor_ns_.compare_exchange_weak(floor_ns, next_ns, std::memory_order_acq_rel));
  return from_nanoseconds(next_ns);
}

Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

Clock& coarse_clock() {
  static CoarseClock clock;
  return clock;
}

}  // namespace lazyfs
