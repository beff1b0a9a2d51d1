#include "base/rate_limit.h"

#include <gtest/gtest.h>

namespace lazyfs {
namespace {

using std::chrono::seconds;

TEST(RateLimitTest, ReportsTheFirstEventAtOnce) {
  RateLimit limit(seconds(60));
  EXPECT_EQ(limit.note(seconds(5)), 1u);
}

TEST(RateLimitTest, CountsWhatItHoldsBack) {
  RateLimit limit(seconds(60));
  ASSERT_EQ(limit.note(seconds(0)), 1u);
  EXPECT_EQ(limit.note(seconds(1)), std::nullopt);
  EXPECT_EQ(limit.note(seconds(59)), std::nullopt);
  EXPECT_EQ(limit.note(seconds(60)), 3u);
  EXPECT_EQ(limit.note(seconds(61)), std::nullopt);
  EXPECT_EQ(limit.note(seconds(500)), 2u);
}

}  // namespace
}  // namespace lazyfs
