// A clock that moves only when a test moves it.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace lazyfs {

class SteppedClock final : public Clock {
 public:
  Timestamp now() override { return {1'700'000'000, 0}; }
  std::chrono::nanoseconds monotonic() override { return time; }
  std::chrono::nanoseconds time = std::chrono::hours(1);
};

}  // namespace lazyfs
