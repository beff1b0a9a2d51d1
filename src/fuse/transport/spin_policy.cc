#include "fuse/transport/spin_policy.h"

#include <algorithm>

namespace lazyfs::fuse {
namespace {

constexpr auto kPauseMin = std::chrono::milliseconds(10);
constexpr auto kPauseMax = std::chrono::milliseconds(1000);

}  // namespace

void SpinPolicy::note_busy_cpu(Time now) {
  pause_ = std::clamp(2 * pause_, kPauseMin, kPauseMax);
  not_before_ = now + pause_;
}

}  // namespace lazyfs::fuse
