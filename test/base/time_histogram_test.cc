#include "base/time_histogram.h"

#include <gtest/gtest.h>

#include "base/time_histogram_json.h"

namespace lazyfs {
namespace {

using std::chrono::nanoseconds;

TEST(TimeHistogram, IsZeroWhenNothingWasAdded) {
  const TimeHistogram times;
  EXPECT_EQ(times.count(), 0u);
  EXPECT_EQ(times.percentile_ns(0.5), 0u);
  EXPECT_EQ(times.max_ns(), 0u);
}

TEST(TimeHistogram, OneTimeIsEveryPercentile) {
  TimeHistogram times;
  times.add(nanoseconds(123'456));
  EXPECT_EQ(times.count(), 1u);
  for (const double share : {0.0, 0.5, 0.999, 1.0}) {
    EXPECT_EQ(times.percentile_ns(share), 123'456u);
  }
}

TEST(TimeHistogram, HasPercentilesAtMostAFourthTooLong) {
  TimeHistogram times;
  for (int i = 1; i <= 100'000; ++i) times.add(nanoseconds(i));
  for (const double share : {0.001, 0.01, 0.5, 0.99, 0.999}) {
    const double exact = share * 100'000;
    EXPECT_GE(static_cast<double>(times.percentile_ns(share)), exact);
    EXPECT_LE(static_cast<double>(times.percentile_ns(share)), exact * 1.25);
  }
  EXPECT_EQ(times.max_ns(), 100'000u);
}

TEST(TimeHistogram, TakesTheShortestAndTheLongest) {
  TimeHistogram times;
  times.add(nanoseconds(0));
  times.add(nanoseconds::max());
  EXPECT_EQ(times.count(), 2u);
  EXPECT_EQ(times.percentile_ns(0.5), 0u);
  EXPECT_EQ(times.percentile_ns(1), static_cast<std::uint64_t>(nanoseconds::max().count()));
}

TEST(TimeHistogram, CountsTimesBelowAPowerOfTwo) {
  TimeHistogram times;
  for (const long ns : {0, 7, 8, 1023, 1024, 1025, 5000}) times.add(nanoseconds(ns));
  EXPECT_EQ(times.count_below_power(3), 2u);
  EXPECT_EQ(times.count_below_power(10), 4u);
  EXPECT_EQ(times.count_below_power(11), 6u);
  EXPECT_EQ(times.count_below_power(63), 7u);
  EXPECT_EQ(times.sum_ns(), 8087u);
}

TEST(TimeHistogram, IsPrintedWithCountsBelowPowersOfFour) {
  TimeHistogram times;
  times.add(nanoseconds(4095));
  times.add(nanoseconds(4096));
  const Json json = to_json(times);
  EXPECT_EQ(json["count"].number(), 2u);
  EXPECT_EQ(json["sum_ns"].number(), 8191u);
  EXPECT_EQ(json["max_ns"].number(), 4096u);
  EXPECT_EQ(json["below_ns"]["4096"].number(), 1u);
  EXPECT_EQ(json["below_ns"]["16384"].number(), 2u);
  EXPECT_EQ(json["below_ns"]["17179869184"].number(), 2u);
}

}  // namespace
}  // namespace lazyfs
