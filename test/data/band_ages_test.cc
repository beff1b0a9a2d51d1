#include "data/band_ages.h"

#include <gtest/gtest.h>

#include "test/data/band_table_fixture.h"

namespace lazyfs::data {
namespace {

class BandAgesTest : public BandTableTest {};

// A lifespan is a fourth of the disk until bands of rewritten data have lived: 42 blocks.
TEST_F(BandAgesTest, DataIsYoungForTwoLifespansAndOldAfterFour) {
  append(kFirst, 5);
  EXPECT_TRUE(table.is_young(kFirst));
  age_by(8);
  EXPECT_TRUE(table.is_young(kFirst));
  EXPECT_EQ(table.stream_for_moved(kFirst), Stream::kCollector);
  age_by(1);
  EXPECT_FALSE(table.is_young(kFirst));
  EXPECT_EQ(table.stream_for_moved(kFirst), Stream::kCollectorMature);
  age_by(7);
  EXPECT_EQ(table.stream_for_moved(kFirst), Stream::kCollectorMature);
  age_by(1);
  EXPECT_EQ(table.stream_for_moved(kFirst), Stream::kCollectorOld);
}

TEST_F(BandAgesTest, WhatWasThereAtTheMountIsOld) {
  table.restore(kFirst, {.appended = kBandBlocks, .live = 5});
  EXPECT_FALSE(table.is_young(kFirst));
  EXPECT_EQ(table.stream_for_moved(kFirst), Stream::kCollectorOld);
}

TEST_F(BandAgesTest, MovedBlocksKeepTheirAge) {
  constexpr BandId kMoved{3}, kFresh{4};
  table.restore(kFirst, {.appended = kBandBlocks, .live = 5});
  append(kFresh, 5);
  for (const BandId from : {kFirst, kFresh}) {
    ASSERT_TRUE(table.lease(kMoved, Stream::kCollector));
    table.account_append(kMoved, 5, 5, 1);
    table.account_move(from, kMoved, 5);
    table.end_lease(kMoved, false, false);
    EXPECT_EQ(table.stream_for_moved(kMoved), Stream::kCollectorOld);  // on average
  }
  EXPECT_TRUE(table.is_young(kFresh));
}

// After a while a lifespan is what bands of rewritten data live: 10 blocks.
TEST_F(BandAgesTest, WhatACutLeavesKeepsItsAge) {
  append(kFirst, kBandBlocks);
  age_by(18);
  ASSERT_EQ(table.stream_for_moved(kFirst), Stream::kCollectorOld);
  table.account_death(kFirst, 6, 1);
  ASSERT_TRUE(table.begin_cut(kFirst));
  table.finish_cut(kFirst, {.blocks = 6, .append_records = 0, .delete_records = 1}, true);
  EXPECT_EQ(table.stream_for_moved(kFirst), Stream::kCollectorOld);
}

TEST_F(BandAgesTest, LifespansAreMeasured) {
  append(kFirst, 5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(table.is_young(kFirst));
    fill_and_reset(kLast, Stream::kRewritten);
  }
  EXPECT_TRUE(table.is_young(kFirst));  // 50 < 2 * 28
  append(kLast, kBandBlocks, Stream::kSmall);
  EXPECT_FALSE(table.is_young(kFirst));
}

TEST_F(BandAgesTest, ABandThatWasOpenAtTheMountMeasuresNoLifespan) {
  table.restore(kLast, {.appended = 1, .live = 1});
  fill_and_reset(kLast, Stream::kRewritten);
  append(kFirst, 5);
  age_by(8);
  EXPECT_TRUE(table.is_young(kFirst));
  age_by(1);
  EXPECT_FALSE(table.is_young(kFirst));  // 90 > 2 * 42
}

// The band is reset once more before anything is appended to it.
TEST_F(BandAgesTest, ABandWhoseResetFailedMeasuresOneLifespan) {
  fill_and_reset(kLast, Stream::kRewritten, false);
  age_by(60);
  ASSERT_TRUE(table.begin_retry(kLast));
  table.finish_reset(kLast, true);
  append(kFirst, 5);
  age_by(7);
  EXPECT_TRUE(table.is_young(kFirst));
  age_by(1);
  EXPECT_FALSE(table.is_young(kFirst));  // 80 > 2 * 39
}

}  // namespace
}  // namespace lazyfs::data
