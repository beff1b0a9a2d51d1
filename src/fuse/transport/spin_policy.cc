#include "fuse/transport/spin_policy.h"

#include <algorithm>

namespace lazyfs::fuse {
namespace {

constexpr auto kPauseMin = std::chrono::milliseconds(1);
constexpr auto kPauseMax = std::chrono::milliseconds(1000);
constexpr auto kIdle = std::chrono::milliseconds(2);

}  // namespace

void SpinPolicy::note_busy_cpu(Time now) {
  pause_ = idle_ < kIdle ? std::clamp(2 * pause_, kPauseMin, kPauseMax) : kPauseMin;
  idle_ = {};
  not_before_ = now + pause_;
}

}  // namespace lazyfs::fuse
