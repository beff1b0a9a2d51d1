#include "base/log_limit.h"

#include <gtest/gtest.h>

namespace lazyfs {
namespace {

using std::chrono::seconds;

constexpr char kOne[] = "one", kOther[] = "other";

TEST(LogLimitTest, LeavesOutLinesOfOneKindThatAreTooMany) {
  LogLimit limit(2, seconds(60));
  EXPECT_EQ(limit.note(kOne, seconds(0)), 0u);
  EXPECT_EQ(limit.note(kOne, seconds(1)), 0u);
  EXPECT_EQ(limit.note(kOne, seconds(2)), std::nullopt);
  EXPECT_EQ(limit.note(kOther, seconds(3)), 0u);
  EXPECT_EQ(limit.note(kOne, seconds(59)), std::nullopt);
}

TEST(LogLimitTest, TheNextPeriodSaysHowManyWereLeftOut) {
  LogLimit limit(1, seconds(60));
  ASSERT_EQ(limit.note(kOne, seconds(5)), 0u);
  ASSERT_EQ(limit.note(kOne, seconds(6)), std::nullopt);
  ASSERT_EQ(limit.note(kOne, seconds(64)), std::nullopt);
  EXPECT_EQ(limit.note(kOne, seconds(65)), 2u);
  EXPECT_EQ(limit.note(kOne, seconds(66)), std::nullopt);
  EXPECT_EQ(limit.note(kOne, seconds(500)), 1u);
  EXPECT_EQ(limit.note(kOne, seconds(600)), 0u);
}

}  // namespace
}  // namespace lazyfs
