#include "device/shared_flush.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <new>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "base/before_wait.h"
#include "test/support/result_printer.h"

namespace lazyfs::device {
namespace {

using End = SharedFlush::End;

class SharedFlushTest : public testing::Test {
 protected:
  // Runs a flush that ends so, and counts it.
  Result<> run(End end = End::kDurable) {
    return flush_.run([this, end] {
      ++flushes_;
      return end;
    });
  }
  // Begins a flush on a thread of its own. It ends when end_first() is called.
  void begin_first() {
    flush_.touch();
    first_ = std::jthread([this] {
      EXPECT_EQ(flush_.run([this] {
        is_first_running_ = true;
        begun_.release();
        may_end_.acquire();
        is_first_running_ = false;
        return End::kDurable;
      }), ok());
    });
    begun_.acquire();
  }
  void end_first() { may_end_.release(); }
  // Starts a thread that calls `call`, and returns when the thread waits or the call has ended.
  void start(std::function<void()> call) {
    others_.emplace_back([this, call = std::move(call)] {
      bool is_noted = false;
      const std::function<void()> note = [&] {
        if (!std::exchange(is_noted, true)) waits_or_ended_.release();
      };
      const BeforeWait before_wait(note);
      call();
      note();
    });
    waits_or_ended_.acquire();
  }

  SharedFlush flush_;
  std::atomic<int> flushes_ = 0, failures_ = 0;
  std::atomic<bool> is_first_running_ = false;
  std::binary_semaphore begun_{0}, may_end_{0};
  std::counting_semaphore<> waits_or_ended_{0};
  std::jthread first_;
  std::vector<std::jthread> others_;  // the last member: these threads end first
};

TEST_F(SharedFlushTest, FlushesOnlyWhatWasTouched) {
  EXPECT_EQ(run(), ok());
  EXPECT_EQ(flushes_, 0);
  flush_.touch();
  EXPECT_EQ(run(), ok());
  EXPECT_EQ(run(), ok());
  EXPECT_EQ(flushes_, 1);
}

TEST_F(SharedFlushTest, AWriteDuringAFlushNeedsAnother) {
  flush_.touch();
  EXPECT_EQ(flush_.run([this] {
    flush_.touch();
    return End::kDurable;
  }), ok());
  EXPECT_EQ(run(), ok());
  EXPECT_EQ(flushes_, 1);
}

TEST_F(SharedFlushTest, ACallerNeedsAFlushThatBeganAfterItsCall) {
  begin_first();
  flush_.touch();
  start([this] {
    EXPECT_EQ(run(), ok());
    EXPECT_FALSE(is_first_running_) << "one flush runs at a time";
  });
  end_first();
  others_.clear();
  EXPECT_EQ(flushes_, 1);
}

TEST_F(SharedFlushTest, AllCallersOfAFlushThatFailsFail) {
  begin_first();
  flush_.touch();
  for (int i = 0; i < 3; ++i) {
    start([this] { failures_ += run(End::kNotDone) == fail(Errc::kDeviceFlush); });
  }
  end_first();
  others_.clear();
  EXPECT_EQ(flushes_, 1) << "one for all of them";
  EXPECT_EQ(failures_, 3);
}

TEST_F(SharedFlushTest, AFlushThatDidNothingIsRepeated) {
  flush_.touch();
  EXPECT_EQ(run(End::kNotDone), fail(Errc::kDeviceFlush));
  EXPECT_EQ(run(), ok());
  EXPECT_EQ(flushes_, 2);
  EXPECT_EQ(run(), ok());
  EXPECT_EQ(flushes_, 2);
}

TEST_F(SharedFlushTest, WithoutMemoryAFlushIsNotDoneAndLaterOnesAre) {
  const auto no_memory = []() -> End { throw std::bad_alloc(); };
  flush_.touch();
  EXPECT_EQ(flush_.run(no_memory), fail(Errc::kDeviceFlush));
  EXPECT_EQ(flush_.run_alone([&]() -> Result<> { throw std::bad_alloc(); }),
            fail(Errc::kNoMemory));
  EXPECT_EQ(run(), ok());
  EXPECT_EQ(flushes_, 1);
}

TEST_F(SharedFlushTest, AfterLostWritesNothingIsFlushed) {
  flush_.touch();
  EXPECT_EQ(run(End::kWritesLost), fail(Errc::kDeviceFlush));
  flush_.touch();
  EXPECT_EQ(run(), fail(Errc::kDeviceFlush));
  EXPECT_EQ(flush_.run_alone([this]() -> Result<> {
    ++flushes_;
    return ok();
  }), fail(Errc::kDeviceFlush));
  EXPECT_EQ(flushes_, 1);
}

TEST_F(SharedFlushTest, WorkAloneThatFailsToFlushHasLostWrites) {
  flush_.touch();
  EXPECT_EQ(flush_.run_alone([]() -> Result<> { return fail(Errc::kDeviceNoSpace); }),
            fail(Errc::kDeviceNoSpace));
  EXPECT_EQ(run(), ok());
  EXPECT_EQ(flush_.run_alone([]() -> Result<> { return fail(Errc::kDeviceFlush); }),
            fail(Errc::kDeviceFlush));
  flush_.touch();
  EXPECT_EQ(run(), fail(Errc::kDeviceFlush));
}

TEST_F(SharedFlushTest, NoFlushRunsDuringWorkAlone) {
  begin_first();
  flush_.touch();
  std::atomic<bool> is_alone = false;
  start([&] {
    EXPECT_EQ(flush_.run_alone([&]() -> Result<> {
      EXPECT_FALSE(is_first_running_);
      is_alone = true;
      start([&] {
        EXPECT_EQ(run(), ok());
        EXPECT_FALSE(is_alone);
      });
      is_alone = false;
      return ok();
    }), ok());
  });
  end_first();
  first_.join();
  while (flushes_ == 0) std::this_thread::yield();
}

}  // namespace
}  // namespace lazyfs::device
