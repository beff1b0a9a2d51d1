#include "fs/space/stall_times.h"

#include <gtest/gtest.h>

namespace lazyfs::fs {
namespace {

using std::chrono::nanoseconds;

TEST(StallTimes, AreZeroWhenNoWriterWaited) {
  const StallTimes times;
  EXPECT_EQ(times.count(), 0u);
  EXPECT_EQ(times.percentile_ns(0.5), 0u);
  EXPECT_EQ(times.max_ns(), 0u);
}

TEST(StallTimes, OneStallIsEveryPercentile) {
  StallTimes times;
  times.add(nanoseconds(123'456));
  EXPECT_EQ(times.count(), 1u);
  for (const double share : {0.0, 0.5, 0.999, 1.0}) {
    EXPECT_EQ(times.percentile_ns(share), 123'456u);
  }
}

TEST(StallTimes, PercentilesAreAtMostAFourthTooLong) {
  StallTimes times;
  for (int i = 1; i <= 100'000; ++i) times.add(nanoseconds(i));
  for (const double share : {0.001, 0.01, 0.5, 0.99, 0.999}) {
    const double exact = share * 100'000;
    EXPECT_GE(static_cast<double>(times.percentile_ns(share)), exact);
    EXPECT_LE(static_cast<double>(times.percentile_ns(share)), exact * 1.25);
  }
  EXPECT_EQ(times.max_ns(), 100'000u);
}

TEST(StallTimes, TakeTheShortestAndTheLongest) {
  StallTimes times;
  times.add(nanoseconds(0));
  times.add(nanoseconds::max());
  EXPECT_EQ(times.count(), 2u);
  EXPECT_EQ(times.percentile_ns(0.5), 0u);
  EXPECT_EQ(times.percentile_ns(1), static_cast<std::uint64_t>(nanoseconds::max().count()));
}

}  // namespace
}  // namespace lazyfs::fs
