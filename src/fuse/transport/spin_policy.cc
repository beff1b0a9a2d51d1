#include "fuse/transport/spin_policy.h"

#include <algorithm>

namespace lazyfs::fuse {
namespace {

constexpr auto kPauseMin = std::chrono::milliseconds(1);
constexpr auto kPauseMax = std::chrono::milliseconds(1000);
constexpr auto kSoon = std::chrono::milliseconds(10);

}  // namespace

void SpinPolicy::note_busy_cpu(Time now) {
  const bool soon = now - not_before_ < kSoon;
  pause_ = soon ? std::clamp(2 * pause_, kPauseMin, kPauseMax) : kPauseMin;
  not_before_ = now + pause_;
}

}  // namespace lazyfs::fuse
