#include "fuse/transport/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace lazyfs::fuse {
namespace {

constexpr std::chrono::milliseconds kTick{1};
constexpr int kLooksUntilItSleeps = 41;  // 40 ticks without a request, and one before the sleep

// A transport that counts the requests it has begun.
class WatchdogTest : public testing::Test {
 protected:
  // As a thread of a transport does.
  void begin_request() {
    ++begun_;
    watchdog_.wake();
  }
  // The moment between a look at the requests and what the watchdog does next.
  virtual void after_look(int /*idle_looks*/) {}

  Watchdog::Seen look() {
    const int begun = begun_;
    const bool moved = std::exchange(begun_seen_, begun) != begun;
    idle_looks_ = moved ? 0 : idle_looks_ + 1;
    after_look(idle_looks_);
    if (moved) found_ = begun;
    return {.moved = moved, .requests = 0};
  }

  std::atomic<int> begun_{0}, found_{0};
  std::atomic<int> idle_looks_{0};  // since one that has found a request
  int begun_seen_ = 0;  // the watchdog's
  Watchdog watchdog_{CpuLatencyChoice::kOff, kTick, [this] { return look(); }};
};

TEST_F(WatchdogTest, SleepsWhileNoRequestComesAndFindsTheNext) {
  ASSERT_TRUE(watchdog_.start());
  for (int round = 1; round <= 3; ++round) {
    while (idle_looks_ < kLooksUntilItSleeps) std::this_thread::yield();
    begin_request();
    while (found_ < round) std::this_thread::yield();
  }
  watchdog_.stop();
}

class WatchdogSleepTest : public WatchdogTest, public testing::WithParamInterface<int> {
 protected:
  void after_look(int idle_looks) override {
    if (idle_looks == GetParam()) begin_request();
  }
};
INSTANTIATE_TEST_SUITE_P(Looks, WatchdogSleepTest,
                         testing::Range(kLooksUntilItSleeps - 2, kLooksUntilItSleeps + 1));

TEST_P(WatchdogSleepTest, DoesNotSleepThroughARequestThatBeginsJustAfterALook) {
  ASSERT_TRUE(watchdog_.start());
  while (found_ < 1) std::this_thread::yield();
  watchdog_.stop();
}

}  // namespace
}  // namespace lazyfs::fuse
