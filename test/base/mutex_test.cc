#include "base/mutex.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace lazyfs {
namespace {

TEST(SharedMutexTest, WritersAreAloneAndReadersSeeWholeChanges) {
  SharedMutex mu;
  std::uint64_t a = 0, b = 0;  // guarded by mu; equal whenever no writer holds mu
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        WriterLock lock(mu);
        ++a;
        ++b;
      }
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        ReaderLock lock(mu);
        ASSERT_EQ(a, b);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(a, 60000u);
}

// M3. Each holder keeps the lock for longer than the others spin, so that they sleep.
TEST(SharedMutexTest, SleepersAreWoken) {
  SharedMutex mu;
  std::atomic<int> held{0};
  const auto hold = [&held] {
    usleep(100);
    ++held;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, reads = t % 2 == 0] {
      for (int i = 0; i < 50; ++i) {
        if (reads) {
          ReaderLock lock(mu);
          hold();
        } else {
          WriterLock lock(mu);
          hold();
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(held, 300);
}

TEST(SharedMutexTest, ReadersHoldTheLockTogether) {
  SharedMutex mu;
  std::atomic<int> inside{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      ReaderLock lock(mu);
      ++inside;
      while (inside < 3) std::this_thread::yield();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(inside, 3);
}

// The readers always overlap: a lock that prefers readers would never let the writer in.
TEST(SharedMutexTest, AWriterGetsTheLockAmongPermanentReaders) {
  SharedMutex mu;
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 4; ++t) {
    readers.emplace_back([&] {
      while (!stop) ReaderLock lock(mu);
    });
  }
  for (int i = 0; i < 100; ++i) WriterLock lock(mu);
  stop = true;
  for (auto& thread : readers) thread.join();
}

}  // namespace
}  // namespace lazyfs
