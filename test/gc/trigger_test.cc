#include "gc/trigger.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lazyfs::gc {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""us;
using std::chrono_literals::operator""ns;

// ---- Free space ---------------------------------------------------------------------------------

constexpr Thresholds kThresholds{.low_blocks = 300, .high_blocks = 100};

TEST(CleanPriorityTest, RisesBelowEachThresholdAndNotAtIt) {
  EXPECT_EQ(clean_priority(300, 50, kThresholds), CleanPriority::kNone);
  EXPECT_EQ(clean_priority(299, 50, kThresholds), CleanPriority::kLow);
  EXPECT_EQ(clean_priority(100, 50, kThresholds), CleanPriority::kLow);
  EXPECT_EQ(clean_priority(99, 50, kThresholds), CleanPriority::kHigh);
  EXPECT_EQ(clean_priority(0, 50, kThresholds), CleanPriority::kHigh);
}

TEST(CleanPriorityTest, IsNoneWhenCleaningWouldFindNothing) {
  EXPECT_EQ(clean_priority(0, 0, kThresholds), CleanPriority::kNone);
}

TEST(ThresholdsTest, AreSharesOfTheDiskWhileMuchIsNotLive) {
  const Thresholds found = thresholds(10'000, 9'000, 20, 10);
  EXPECT_EQ(found.low_blocks, 2'000u);
  EXPECT_EQ(found.high_blocks, 1'000u);
}

TEST(ThresholdsTest, AskForNoMoreThanAShareOfTheSlack) {
  const Thresholds found = thresholds(10'000, 800, 30, 10);
  EXPECT_EQ(found.low_blocks, 200u);
  EXPECT_EQ(found.high_blocks, 100u);
}

// ---- Idleness -----------------------------------------------------------------------------------

TEST(AverageRateTest, StaysAtASteadyRate) { EXPECT_DOUBLE_EQ(average_rate(100, 200, 2s, 5s), 100); }

TEST(AverageRateTest, FadesToAnEthInOneTimeConstantWithoutArrivals) {
  EXPECT_NEAR(average_rate(100, 0, 5s, 5s), 100 / 2.718281828, 1e-6);
}

TEST(AverageRateTest, IsTheSameHoweverTheTimeIsCutIntoPieces) {
  const double at_once = average_rate(7, 1000, 10s, 3s);
  double in_pieces = 7;
  for (int i = 0; i < 10; ++i) in_pieces = average_rate(in_pieces, 100, 1s, 3s);
  EXPECT_NEAR(in_pieces, at_once, 1e-9);
}

TEST(AverageRateTest, KeepsTheAverageWhenNoTimeHasPassed) {
  EXPECT_EQ(average_rate(42, 1000, 0s, 5s), 42);
  EXPECT_EQ(average_rate(42, 1000, -1s, 5s), 42);
}

TEST(AverageRateTest, WithoutATimeConstantKnowsOnlyTheLastInterval) {
  EXPECT_EQ(average_rate(42, 10, 2s, 0s), 5);
}

constexpr IdleLimits kLimits{.quiet_for = 2s, .rate_below = 64, .pause = 100ms};

TEST(IdleTest, TheTimerFiresAtItsEndAndNotBefore) {
  EXPECT_TRUE(is_idle({.since_last_request = 2s, .arrival_rate = 1000}, kLimits));
  EXPECT_FALSE(is_idle({.since_last_request = 2s - 1ns, .arrival_rate = 1000}, kLimits));
}

TEST(IdleTest, ALowArrivalRateIsIdleToo) {
  EXPECT_TRUE(is_idle({.since_last_request = 100ms, .arrival_rate = 63.9}, kLimits));
  EXPECT_FALSE(is_idle({.since_last_request = 100ms, .arrival_rate = 64}, kLimits));
}

TEST(IdleTest, NothingIsIdleWithinAPauseOfARequest) {
  EXPECT_FALSE(is_idle({.since_last_request = 100ms - 1ns, .arrival_rate = 0}, kLimits));
}

TEST(IdleTest, WithoutATimerAnyPauseIsIdle) {
  const IdleLimits no_timer{.quiet_for = 0s, .rate_below = 0, .pause = 100ms};
  EXPECT_TRUE(is_idle({.since_last_request = 100ms, .arrival_rate = 1000}, no_timer));
  EXPECT_FALSE(is_idle({.since_last_request = 99ms, .arrival_rate = 1000}, no_timer));
}

TEST(IdleTest, ARateOfZeroLeavesTheTimerAloneToDecide) {
  const IdleLimits timer_only{.quiet_for = 2s, .rate_below = 0};
  EXPECT_FALSE(is_idle({.since_last_request = 1s, .arrival_rate = 0}, timer_only));
  EXPECT_TRUE(is_idle({.since_last_request = 3s, .arrival_rate = 0}, timer_only));
}

// ---- Slowing writers ----------------------------------------------------------------------------

constexpr ThrottleLimits kThrottle{
    .start_blocks = 1000, .reserve_blocks = 200, .max_delay_a_block = 100us, .max_delay = 50ms};

TEST(ThrottleTest, IsNothingFromTheThresholdUp) {
  EXPECT_EQ(throttle_delay(1000, 256, kThrottle), 0ns);
  EXPECT_EQ(throttle_delay(5000, 256, kThrottle), 0ns);
}

TEST(ThrottleTest, IsStrongestAtTheReserveAndBelowIt) {
  EXPECT_EQ(throttle_delay(200, 10, kThrottle), 1ms);
  EXPECT_EQ(throttle_delay(0, 10, kThrottle), 1ms);
}

TEST(ThrottleTest, GrowsAsTheSquareInBetween) {
  EXPECT_EQ(throttle_delay(600, 16, kThrottle), 400us);  // half of the way: a quarter of 1.6 ms
  EXPECT_EQ(throttle_delay(800, 16, kThrottle), 100us);
}

TEST(ThrottleTest, NeverShrinksAsRoomShrinksAndMakesNoJump) {
  std::chrono::nanoseconds last{0};
  for (std::uint64_t room = 1001; room-- > 0;) {
    const auto delay = throttle_delay(room, 256, kThrottle);
    EXPECT_GE(delay, last) << room;
    EXPECT_LE(delay - last, 100us) << room;
    last = delay;
  }
}

TEST(ThrottleTest, NoSingleWriteWaitsLongerThanTheLongest) {
  EXPECT_EQ(throttle_delay(0, 1'000'000'000, kThrottle), 50ms);
}

TEST(ThrottleTest, ThresholdAtOrBelowTheReserveIsAStepWithoutDividingByZero) {
  const ThrottleLimits step{.start_blocks = 200, .reserve_blocks = 200, .max_delay_a_block = 1us};
  EXPECT_EQ(throttle_delay(200, 1, step), 0ns);
  EXPECT_EQ(throttle_delay(199, 1, step), 1us);
  const ThrottleLimits inverted{
      .start_blocks = 100, .reserve_blocks = 200, .max_delay_a_block = 1us};
  EXPECT_EQ(throttle_delay(99, 1, inverted), 1us);
}

}  // namespace
}  // namespace lazyfs::gc
