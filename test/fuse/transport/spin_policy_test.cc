#include "fuse/transport/spin_policy.h"

#include <gtest/gtest.h>

namespace lazyfs::fuse {
namespace {

using std::chrono::milliseconds;

const SpinPolicy::Time kStart = SpinPolicy::Time{} + std::chrono::hours(1);

TEST(SpinPolicy, SpinsUntilRequestsComeLateSeveralTimes) {
  SpinPolicy policy;
  EXPECT_TRUE(policy.should_spin(kStart));
  for (int i = 0; i < 3; ++i) policy.note_request(false);
  EXPECT_FALSE(policy.should_spin(kStart));
  policy.note_request(true);
  EXPECT_TRUE(policy.should_spin(kStart));
}

TEST(SpinPolicy, PausesTwiceAsLongEachTimeTheCpuIsBusy) {
  SpinPolicy policy;
  SpinPolicy::Time now = kStart;
  for (const int pause : {10, 20, 40, 80, 160, 320, 640, 1000, 1000}) {
    policy.note_busy_cpu(now);
    EXPECT_FALSE(policy.should_spin(now + milliseconds(pause - 1)));
    now += milliseconds(pause);
    EXPECT_TRUE(policy.should_spin(now));
  }
}

TEST(SpinPolicy, BeginsWithAShortPauseAfterTheCpuWasIdle) {
  SpinPolicy policy;
  for (int i = 0; i < 5; ++i) policy.note_busy_cpu(kStart);
  policy.note_idle_cpu();
  policy.note_busy_cpu(kStart);
  EXPECT_TRUE(policy.should_spin(kStart + milliseconds(10)));
}

}  // namespace
}  // namespace lazyfs::fuse
