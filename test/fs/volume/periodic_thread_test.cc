#include "fs/volume/periodic_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace lazyfs::fs {
namespace {

constexpr auto kNever = std::chrono::hours(1);

// Waits until `value` is at least `wanted`.
void wait_for(std::atomic<int>& value, int wanted) {
  for (int now = value; now < wanted; now = value) value.wait(now);
}

TEST(PeriodicThreadTest, WakeIsFollowedByAStepThatKnowsOfIt) {
  std::atomic<int> steps{0}, woken_steps{0};
  PeriodicThread thread(kNever, [&](bool woken) {
    woken_steps += woken;
    ++steps;
    steps.notify_all();
    return false;
  });
  ASSERT_TRUE(thread.start());
  for (int i = 1; i <= 3; ++i) {
    thread.wake();
    wait_for(steps, i);
  }
  thread.stop();
  EXPECT_EQ(steps, woken_steps);
}

TEST(PeriodicThreadTest, WakeBeforeTheStartIsNotLost) {
  std::atomic<int> steps{0};
  PeriodicThread thread(kNever, [&](bool) {
    ++steps;
    steps.notify_all();
    return false;
  });
  thread.wake();
  ASSERT_TRUE(thread.start());
  wait_for(steps, 1);
}

TEST(PeriodicThreadTest, StepThatAsksForMoreIsRepeatedAtOnce) {
  std::atomic<int> steps{0};
  PeriodicThread thread(kNever, [&](bool) {
    const bool more = ++steps < 5;
    steps.notify_all();
    return more;
  });
  ASSERT_TRUE(thread.start());
  thread.wake();
  wait_for(steps, 5);
  thread.stop();
  EXPECT_EQ(steps, 5);
}

TEST(PeriodicThreadTest, PeriodIsEnoughForAStep) {
  std::atomic<int> steps{0};
  PeriodicThread thread(std::chrono::milliseconds(1), [&](bool woken) {
    EXPECT_FALSE(woken);
    ++steps;
    steps.notify_all();
    return false;
  });
  ASSERT_TRUE(thread.start());
  wait_for(steps, 3);
}

TEST(PeriodicThreadTest, EveryStopReturnsAfterTheStepHasEnded) {
  std::atomic<bool> holds{true}, ended{false};
  std::atomic<int> steps{0};
  PeriodicThread thread(kNever, [&](bool) {
    ++steps;
    steps.notify_all();
    holds.wait(true);
    ended = true;
    return false;
  });
  ASSERT_TRUE(thread.start());
  thread.wake();
  wait_for(steps, 1);
  const auto stop = [&] {
    thread.stop();
    EXPECT_TRUE(ended);
  };
  std::thread first(stop), second(stop);
  holds = false;
  holds.notify_all();
  first.join();
  second.join();
  EXPECT_EQ(steps, 1);
}

TEST(PeriodicThreadTest, ThreadThatWasNotStartedCanBeStopped) {
  PeriodicThread thread(kNever, [](bool) { return false; });
  thread.stop();
  thread.stop();
}

}  // namespace
}  // namespace lazyfs::fs
