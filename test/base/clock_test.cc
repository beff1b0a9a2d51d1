#include "base/clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace lazyfs {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(TimestampTest, NanosecondsComeBackAsTheyWere) {
  for (const Timestamp time : {Timestamp{0, 0}, {1'700'000'000, 999'999'999}, {-1, 1}, {-7, 0}}) {
    EXPECT_EQ(from_nanoseconds(to_nanoseconds(time)), time);
  }
  EXPECT_EQ(to_nanoseconds({-1, 999'999'999}), -1);
}

TEST(TimestampTest, TimesOutsideOfTheRangeBecomeTheFirstOrTheLast) {
  EXPECT_EQ(to_nanoseconds({INT64_MAX, 0}), INT64_MAX);
  EXPECT_EQ(to_nanoseconds({INT64_MIN, 0}), INT64_MIN);
  EXPECT_EQ(to_nanoseconds({INT64_MAX / kSecond, 999'999'999}), INT64_MAX);
  EXPECT_EQ(to_nanoseconds(from_nanoseconds(INT64_MAX)), INT64_MAX);
  EXPECT_EQ(from_nanoseconds(INT64_MIN).seconds, INT64_MIN / kSecond - 1);
}

TEST(MultigrainTimesTest, CoarseTimeIsItsReadingUntilAFineOneWasGiven) {
  MultigrainTimes times;
  EXPECT_EQ(times.coarse({100, 4}), (Timestamp{100, 4}));
  EXPECT_EQ(times.coarse({100, 3}), (Timestamp{100, 3}));
  EXPECT_EQ(times.fine({100, 9}), (Timestamp{100, 9}));
  EXPECT_EQ(times.coarse({100, 4}), (Timestamp{100, 9}));
  EXPECT_EQ(times.coarse({100, 10}), (Timestamp{100, 10}));
}

TEST(MultigrainTimesTest, FineTimesDifferThoughTheirReadingDoesNot) {
  MultigrainTimes times;
  EXPECT_EQ(times.fine({100, 999'999'999}), (Timestamp{100, 999'999'999}));
  EXPECT_EQ(times.fine({100, 999'999'999}), (Timestamp{101, 0}));
  EXPECT_EQ(times.fine({100, 5}), (Timestamp{101, 1}));
}

TEST(MultigrainTimesTest, ClockThatIsSetBackTakesTheTimesWithIt) {
  MultigrainTimes times;
  times.fine({1000, 0});
  EXPECT_EQ(times.coarse({999, 0}), (Timestamp{1000, 0}));
  EXPECT_EQ(times.coarse({998, 999'999'999}), (Timestamp{998, 999'999'999}));
  EXPECT_EQ(times.coarse({999, 0}), (Timestamp{999, 0}));
  times.fine({1000, 0});
  EXPECT_EQ(times.fine({500, 0}), (Timestamp{500, 0}));
  EXPECT_EQ(times.fine({500, 0}), (Timestamp{500, 1}));
}

TEST(MultigrainTimesTest, FineTimesOfThreadsAllDiffer) {
  constexpr int kThreads = 4, kTimes = 5000;
  MultigrainTimes times;
  std::vector<std::vector<std::int64_t>> given(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : given) {
    threads.emplace_back([&] {
      for (int i = 0; i < kTimes; ++i) mine.push_back(to_nanoseconds(times.fine({1, 0})));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : given) EXPECT_TRUE(std::ranges::is_sorted(mine));
  EXPECT_EQ(times.fine({1, 0}), (Timestamp{1, kThreads * kTimes}));
}

TEST(SystemClockTest, TimeAfterAShownOneIsLater) {
  Clock& clock = system_clock();
  for (int i = 0; i < 1000; ++i) {
    const Timestamp shown = clock.now();
    const Timestamp next = clock.now_after(shown);
    EXPECT_GT(next, shown);
    EXPECT_GE(clock.now(), next);
  }
}

TEST(CoarseClockTest, ChangesWithinAStepHaveOneTime) {
  Clock& clock = coarse_clock();
  const Timestamp begin = clock.now();
  bool one_time = false;
  for (int i = 0; i < 1000; ++i) {
    const Timestamp shown = clock.now();
    one_time |= clock.now_after(shown) == shown;
  }
  EXPECT_TRUE(one_time);
  EXPECT_LE(begin, clock.now());
}

}  // namespace
}  // namespace lazyfs
