#include "fuse/transport/spin_policy.h"

#include <gtest/gtest.h>

#include <functional>

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

// A leader whose time passes only while it yields.
struct Leader {
  bool spin(const std::function<bool()>& ask) {
    return fuse::spin(
        policy, now + microseconds(50), [this] { return now; }, ask, [this] { now += yields; });
  }

  SpinPolicy policy;
  SpinPolicy::Time now = kStart;
  std::chrono::nanoseconds yields = microseconds(1);
};

const auto kNoRequest = [] { return false; };

TEST(Spin, EndsWhenARequestComesOrAtItsDeadline) {
  Leader leader;
  int asked = 0;
  EXPECT_TRUE(leader.spin([&] { return ++asked == 10; }));
  EXPECT_EQ(asked, 10);
  EXPECT_EQ(leader.now, kStart + microseconds(9));
  EXPECT_FALSE(leader.spin(kNoRequest));
  EXPECT_EQ(leader.now, kStart + microseconds(9 + 50));
  EXPECT_TRUE(leader.policy.should_spin(leader.now));
}

TEST(Spin, EndsWhenTheCpuIsWantedAndPausesUnlessARequestHasCome) {
  Leader leader;
  leader.yields = microseconds(21);
  int asked = 0;
  EXPECT_TRUE(leader.spin([&] { return ++asked == 2; }));
  EXPECT_TRUE(leader.policy.should_spin(leader.now));
  EXPECT_FALSE(leader.spin(kNoRequest));
  EXPECT_EQ(leader.now, kStart + 2 * leader.yields);
  EXPECT_FALSE(leader.policy.should_spin(leader.now));
}

// For how long the leader may not spin after its CPU was wanted.
milliseconds pause_of(const Leader& leader) {
  milliseconds pause{0};
  while (!leader.policy.should_spin(leader.now + pause)) pause += milliseconds(1);
  return pause;
}

TEST(Spin, TellsThePolicyWhetherTheCpuWasIdle) {
  Leader leader;
  for (const int pause : {1, 2, 4}) {
    leader.yields = microseconds(100);
    leader.spin(kNoRequest);
    EXPECT_EQ(pause_of(leader), milliseconds(pause));
    leader.now += milliseconds(pause);
  }
  leader.yields = microseconds(1);
  for (int i = 0; i < 40; ++i) leader.spin(kNoRequest);  // 2 ms, undisturbed
  leader.yields = microseconds(100);
  leader.spin(kNoRequest);
  EXPECT_EQ(pause_of(leader), milliseconds(1));
}

}  // namespace
}  // namespace lazyfs::fuse
