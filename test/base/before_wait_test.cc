#include "base/before_wait.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/mutex.h"

namespace lazyfs {
namespace {

TEST(BeforeWaitTest, ItsActionIsThatOfItsThreadWhileItExists) {
  int waits = 0;
  const std::function<void()> count = [&waits] { ++waits; };
  about_to_wait();
  {
    const BeforeWait before_wait(count);
    std::jthread(about_to_wait).join();
    EXPECT_EQ(waits, 0);
    about_to_wait();
    about_to_wait();
  }
  about_to_wait();
  EXPECT_EQ(waits, 2);
}

TEST(BeforeWaitTest, AThreadMustNotWaitWhileItSaysSo) {
  EXPECT_TRUE(may_wait());
  {
    const MustNotWait must_not_wait;
    EXPECT_FALSE(may_wait());
    std::jthread([] { EXPECT_TRUE(may_wait()); }).join();
  }
  EXPECT_TRUE(may_wait());
}

TEST(BeforeWaitTest, AThreadThatWaitsForAConditionSaysSo) {
  int waits = 0;
  const std::function<void()> count = [&waits] { ++waits; };
  const BeforeWait before_wait(count);
  Mutex mu;
  CondVar changed;
  bool is_set = false;
  MutexLock lock(mu);
  changed.wait_for(mu, std::chrono::nanoseconds(1));
  EXPECT_EQ(waits, 1);
  const std::jthread other([&] {
    MutexLock other_lock(mu);
    is_set = true;
    changed.notify_all();
  });
  while (!is_set) changed.wait(mu);
  EXPECT_GE(waits, 2);
}

}  // namespace
}  // namespace lazyfs
