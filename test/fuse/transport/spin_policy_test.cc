#include "fuse/transport/spin_policy.h"

#include <gtest/gtest.h>

namespace lazyfs::fuse {
namespace {

using std::chrono::microseconds;
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

// A thread that computes: the leader has hardly spun when its CPU is wanted again, however late
// the next request comes.
TEST(SpinPolicy, PausesTwiceAsLongWhileTheCpuIsBusy) {
  SpinPolicy policy;
  SpinPolicy::Time now = kStart;
  for (const int pause : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000}) {
    policy.note_busy_cpu(now);
    EXPECT_FALSE(policy.should_spin(now + milliseconds(pause) - microseconds(1)));
    now += milliseconds(pause);
    EXPECT_TRUE(policy.should_spin(now));
    now += milliseconds(50);
    policy.note_idle_cpu(microseconds(1));
  }
}

// A thread in the background works for a moment again and again, between requests that each come
// soon.
TEST(SpinPolicy, PausesShortlyIfTheCpuWasIdleBefore) {
  SpinPolicy policy;
  SpinPolicy::Time now = kStart;
  for (int i = 0; i < 20; ++i) {
    policy.note_busy_cpu(now);
    EXPECT_FALSE(policy.should_spin(now + microseconds(999)));
    now += milliseconds(1);
    EXPECT_TRUE(policy.should_spin(now));
    for (int request = 0; request < 1000; ++request) {
      policy.note_idle_cpu(microseconds(2));
      policy.note_request(true);
    }
  }
}

}  // namespace
}  // namespace lazyfs::fuse
