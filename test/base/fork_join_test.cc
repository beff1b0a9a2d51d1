#include "base/fork_join.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <new>
#include <thread>
#include <vector>

namespace lazyfs {
namespace {

TEST(ForkJoinTest, DoesEachPartOnce) {
  for (const std::size_t threads : {0, 1, 3}) {
    ForkJoin pool(threads);
    for (const std::size_t parts : {0, 1, 2, 3, 4, 100}) {
      std::vector<std::atomic<int>> done(parts);
      pool.run(parts, [&](std::size_t part) { ++done[part]; });
      for (const auto& times : done) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ForkJoinTest, WithoutThreadsTheCallerDoesAllInOrder) {
  ForkJoin pool(0);
  std::vector<std::size_t> order;
  pool.run(4, [&](std::size_t part) { order.push_back(part); });
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3}));
}

// Each part waits until all of them have begun.
TEST(ForkJoinTest, PartsRunAtTheSameTime) {
  ForkJoin pool(3);
  std::latch begun(4);
  pool.run(4, [&](std::size_t) { begun.arrive_and_wait(); });
}

// The threads are busy until the second call has returned.
TEST(ForkJoinTest, ACallerNeedsNoThread) {
  ForkJoin pool(2);
  std::latch busy(3), end(1);
  std::thread other([&] {
    pool.run(3, [&](std::size_t) {
      busy.count_down();
      end.wait();
    });
  });
  busy.wait();
  int done = 0;
  const auto caller = std::this_thread::get_id();
  pool.run(5, [&](std::size_t) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    ++done;
  });
  EXPECT_EQ(done, 5);
  end.count_down();
  other.join();
}

TEST(ForkJoinTest, ThrowsWhatAPartHasThrownOnceAllHaveEnded) {
  for (const std::size_t threads : {0, 2}) {
    ForkJoin pool(threads);
    std::atomic<int> done = 0;
    const auto run = [&] {
      pool.run(10, [&](std::size_t part) {
        ++done;
        if (part == 3) throw std::bad_alloc();
      });
    };
    EXPECT_THROW(run(), std::bad_alloc);
    EXPECT_EQ(done, 10);
  }
}

TEST(ForkJoinTest, ManyCallersShareTheThreads) {
  ForkJoin pool(3);
  std::atomic<int> done = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int call = 0; call < 500; ++call) {
        int own = 0;
        std::vector<int> parts(7);
        pool.run(parts.size(), [&](std::size_t part) { parts[part] = 1; });
        for (const int part : parts) own += part;
        EXPECT_EQ(own, 7);
        done += own;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(done, 4 * 500 * 7);
}

}  // namespace
}  // namespace lazyfs
