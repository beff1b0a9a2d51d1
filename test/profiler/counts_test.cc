#include "profiler/counts.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lazyfs::profiler {
namespace {

TEST(CountsTest, AClassHoldsSizesUpToAPowerOfTwo) {
  EXPECT_EQ(size_class(0), 0u);
  EXPECT_EQ(size_class(1), 1u);
  EXPECT_EQ(size_class(2), 2u);
  EXPECT_EQ(size_class(3), 3u);
  EXPECT_EQ(size_class(4), 3u);
  EXPECT_EQ(size_class(4095), size_class(4096));
  EXPECT_EQ(size_class(4096) + 1, size_class(4097));
  EXPECT_EQ(size_class(1 << 20), 21u);
}

TEST(CountsTest, EverySizeIsAtMostItsClassLargest) {
  for (std::uint64_t size : {0ull, 1ull, 2ull, 5ull, 4096ull, 131072ull, 131073ull, 1ull << 32}) {
    EXPECT_LE(size, largest_of_class(size_class(size)));
    if (size > 0) {
      EXPECT_GT(size, largest_of_class(size_class(size) - 1));
    }
  }
}

TEST(CountsTest, ASizeThatNoRequestHasFallsIntoTheLastClass) {
  EXPECT_EQ(size_class(UINT64_MAX), kSizeClasses - 1);
}

TEST(CountsTest, ARequestMayBeSeveralCalls) {
  Counts counts;
  counts.count({Call::kMknod, Call::kGetattr});
  counts.count({Call::kGetattr});
  counts.count_more(Call::kChmod);
  const Totals totals = counts.take();
  EXPECT_EQ(totals.requests, 2u);
  EXPECT_EQ(totals.all_calls(), 4u);
  EXPECT_EQ(totals.calls[static_cast<std::size_t>(Call::kGetattr)], 2u);
}

TEST(CountsTest, TakingStartsAgainAtZero) {
  Counts counts;
  counts.count({Call::kRead});
  counts.count_read(100);
  counts.count_write(3);
  const Totals first = counts.take(), second = counts.take();
  EXPECT_EQ(first.reads.bytes, 100u);
  EXPECT_EQ(first.reads.calls[size_class(100)], 1u);
  EXPECT_EQ(first.writes.bytes, 3u);
  EXPECT_EQ(second.all_calls() + second.requests + second.reads.bytes + second.writes.bytes, 0u);
  EXPECT_EQ(second.reads.calls[size_class(100)] + second.writes.calls[size_class(3)], 0u);
}

TEST(CountsTest, CountNothingWhenTheyAreOff) {
  Counts counts(false);
  counts.count({Call::kRead});
  counts.count_more(Call::kOpen);
  counts.count_read(100);
  counts.count_write(3);
  const Totals totals = counts.take();
  EXPECT_EQ(totals.all_calls() + totals.requests + totals.reads.bytes + totals.writes.bytes, 0u);
}

TEST(CountsTest, NothingIsLostBetweenThreads) {
  constexpr unsigned kThreads = 4, kCalls = 10'000;
  Counts counts;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (unsigned call = 0; call < kCalls; ++call) counts.count({Call::kWrite});
    });
  }
  std::uint64_t sum = 0;
  for (int i = 0; i < 100; ++i) sum += counts.take().all_calls();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum + counts.take().all_calls(), std::uint64_t{kThreads} * kCalls);
}

}  // namespace
}  // namespace lazyfs::profiler
