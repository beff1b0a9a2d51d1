#include "base/clock.h"

#include <ctime>

namespace lazyfs {
namespace {

timespec read_clock(clockid_t id) {
  timespec ts{};
  clock_gettime(id, &ts);
  return ts;
}

class SystemClock final : public Clock {
 public:
  Timestamp now() override {
    const timespec ts = read_clock(CLOCK_REALTIME_COARSE);
    return {ts.tv_sec, static_cast<std::uint32_t>(ts.tv_nsec)};
  }
  std::chrono::nanoseconds monotonic() override {
    const timespec ts = read_clock(CLOCK_MONOTONIC);
    return std::chrono::seconds(ts.tv_sec) + std::chrono::nanoseconds(ts.tv_nsec);
  }
};

}  // namespace

Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

}  // namespace lazyfs
