#include "data/band_choice.h"

#include <gtest/gtest.h>

#include <optional>

#include "test/data/band_table_fixture.h"
#include "test/support/result_printer.h"

namespace lazyfs::data {
namespace {

class BandChoiceTest : public BandTableTest {};

TEST_F(BandChoiceTest, OffersTheStreamsOwnOpenBandsAndTheFirstFreeOne) {
  append(BandId{4}, 1);
  append(BandId{5}, 1, Stream::kCollector);
  const OpenChoice choice = table.choices(Stream::kSmall, kMaxOpen);
  ASSERT_EQ(choice.open.size(), 1u);
  EXPECT_EQ(choice.open[0].band, BandId{4});
  EXPECT_EQ(choice.free, kFirst);
  EXPECT_FALSE(choice.own_leased);
}

TEST_F(BandChoiceTest, OffersTheFreeBandFromAGivenOneOnAroundTheEnd) {
  EXPECT_EQ(table.choices(Stream::kSmall, kMaxOpen, BandId{7}).free, BandId{7});
  EXPECT_EQ(table.choices(Stream::kSmall, kMaxOpen, kLast).free, kLast);
  append(kLast, 1);
  EXPECT_EQ(table.choices(Stream::kSmall, kMaxOpen, kLast).free, kFirst);
}

// Bands 0 and 1 hold superblocks; bands 5 to 9 are twice as long as 2 to 4 and 10 to 14.
class BandLengthTest : public testing::Test {
 protected:
  static device::Geometry geometry() {
    device::Geometry geometry = geometry_of(15);
    for (std::uint32_t i = 5; i < 10; ++i) geometry.band_blocks[i] = 2 * kBandBlocks;
    return geometry;
  }
  ~BandLengthTest() override { EXPECT_EQ(table_.check_invariants(), ""); }
  std::optional<BandId> offered(Stream stream, BandId from = {}) {
    return table_.choices(stream, kMaxOpen, from).free;
  }
  void fill(BandId band) {
    const std::uint32_t blocks = table_.view(band).blocks;
    ASSERT_TRUE(table_.lease(band, Stream::kLarge));
    table_.account_append(band, blocks, blocks, 1);
    table_.end_lease(band, false, false);
  }

  BandTable table_{geometry(), kSuperBands, {}};
};

TEST_F(BandLengthTest, LargeFilesBeginLongBandsAndSmallOnesShortBands) {
  EXPECT_EQ(offered(Stream::kLarge), BandId{5});
  EXPECT_EQ(offered(Stream::kSmall), BandId{2});
  EXPECT_EQ(offered(Stream::kRewritten), BandId{2});
  EXPECT_EQ(offered(Stream::kCollector), BandId{5});
}

TEST_F(BandLengthTest, TheFirstBandFromAGivenOneOnIsOneOfThoseAsLong) {
  EXPECT_EQ(offered(Stream::kLarge, BandId{8}), BandId{8});
  EXPECT_EQ(offered(Stream::kLarge, BandId{12}), BandId{5});
  EXPECT_EQ(offered(Stream::kSmall, BandId{8}), BandId{10});
}

TEST_F(BandLengthTest, LargeFilesLeaveTheReserveLongBands) {
  fill(BandId{5});
  EXPECT_EQ(offered(Stream::kLarge), BandId{6});
  fill(BandId{6});
  EXPECT_EQ(offered(Stream::kLarge), BandId{2});  // three long ones are left
  EXPECT_EQ(offered(Stream::kCollector), BandId{7});
}

TEST_F(BandLengthTest, BandsOfTheOtherLengthServeWhenThereIsNoSuitableOne) {
  for (const std::uint32_t band : {2, 3, 4, 10, 11, 12, 13, 14}) fill(BandId{band});
  EXPECT_EQ(offered(Stream::kSmall), BandId{5});
  for (const std::uint32_t band : {5, 6}) fill(BandId{band});
  EXPECT_EQ(offered(Stream::kLarge), BandId{7});
  for (const std::uint32_t band : {7, 8, 9}) fill(BandId{band});
  EXPECT_FALSE(offered(Stream::kCollector));
}

// Only short bands are left, of ten blocks each.
class ShortBandsLeftTest : public BandLengthTest {
 protected:
  ShortBandsLeftTest() {
    for (std::uint32_t band = 5; band < 10; ++band) fill(BandId{band});
  }
};

TEST_F(ShortBandsLeftTest, UsersLeaveAsMuchRoomAsTwoLongBandsHave) {
  for (const std::uint32_t band : {2, 3, 4}) {
    EXPECT_EQ(offered(Stream::kSmall), BandId{band});
    fill(BandId{band});
  }
  EXPECT_EQ(table_.user_room(), kBandBlocks);
  fill(BandId{10});
  EXPECT_EQ(table_.user_room(), 0u);
  for (const Stream stream : {Stream::kSmall, Stream::kLarge, Stream::kRewritten}) {
    EXPECT_FALSE(offered(stream));
  }
  EXPECT_EQ(offered(Stream::kCollector), BandId{11});
}

TEST_F(ShortBandsLeftTest, TheReserveHasAsMuchRoomAsThreeLongBands) {
  for (const std::uint32_t band : {2, 3}) fill(BandId{band});
  EXPECT_TRUE(table_.has_reserve());
  fill(BandId{4});
  EXPECT_FALSE(table_.has_reserve());
}

TEST_F(ShortBandsLeftTest, TheLogLeavesAsMuchRoomAsOneLongBandHas) {
  for (const std::uint32_t band : {2, 3, 4, 10}) fill(BandId{band});
  EXPECT_EQ(table_.take_for_log(), BandId{11});
  EXPECT_EQ(table_.take_for_log(), BandId{12});
  EXPECT_EQ(table_.take_for_log(), fail(Errc::kNoSpace));
}

TEST_F(BandLengthTest, TheRoomOfUsersCountsEachBandWithItsLength) {
  for (const std::uint32_t band : {2, 3, 4, 10, 11, 12, 13}) fill(BandId{band});
  for (const std::uint32_t band : {5, 6}) fill(BandId{band});
  EXPECT_EQ(table_.user_room(), 3 * kBandBlocks);
  fill(BandId{14});
  EXPECT_EQ(table_.user_room(), 2 * kBandBlocks);
  fill(BandId{7});
  EXPECT_EQ(table_.user_room(), 0u);
}

TEST_F(BandChoiceTest, OffersNoFreeBandWhenEnoughAreOpen) {
  append(BandId{4}, 1);
  EXPECT_TRUE(table.choices(Stream::kSmall, 3).free);
  EXPECT_FALSE(table.choices(Stream::kSmall, 2).free);
}

TEST_F(BandChoiceTest, KeepsTheLastBandThatMayBeOpenForTheOtherClass) {
  append(BandId{4}, 1);
  EXPECT_FALSE(table.choices(Stream::kLarge, 2).free) << "it is the collector's";
  EXPECT_TRUE(table.choices(Stream::kCollector, 2).free);
  append(BandId{5}, 1, Stream::kCollector);
  EXPECT_FALSE(table.choices(Stream::kLarge, 2).free);
  EXPECT_TRUE(table.choices(Stream::kLarge, 3).free) << "both classes have a band";
}

TEST_F(BandChoiceTest, StreamsShareTheBandsOfTheirClassWhenNoMoreMayBeOpen) {
  append(BandId{4}, 1);
  append(BandId{5}, 1, Stream::kCollector);
  const OpenChoice large = table.choices(Stream::kLarge, 2, {}, false);
  ASSERT_EQ(large.open.size(), 1u);
  EXPECT_EQ(large.open[0].band, BandId{4});
  const OpenChoice old = table.choices(Stream::kCollectorOld, 2, {}, false);
  ASSERT_EQ(old.open.size(), 1u);
  EXPECT_EQ(old.open[0].band, BandId{5});
}

TEST_F(BandChoiceTest, AUserWaitsForASharedBandRatherThanTakeTheCollectors) {
  append(BandId{4}, 1);
  append(BandId{5}, 1, Stream::kCollector);
  ASSERT_TRUE(table.lease(BandId{4}, Stream::kSmall));
  const OpenChoice choice = table.choices(Stream::kLarge, 2, {}, false);
  EXPECT_TRUE(choice.open.empty());
  EXPECT_TRUE(choice.own_leased);
  EXPECT_FALSE(table.choices(Stream::kLarge, kMaxOpen, {}, false).own_leased);
  table.end_lease(BandId{4}, false, false);
}

TEST_F(BandChoiceTest, KeepsTheLastFreeBandsForTheCollector) {
  fill_all_but(3);
  EXPECT_TRUE(table.choices(Stream::kSmall, kMaxOpen).free);
  fill_all_but(2);
  EXPECT_FALSE(table.choices(Stream::kSmall, kMaxOpen).free);
  EXPECT_TRUE(table.choices(Stream::kCollector, kMaxOpen).free);
  fill_all_but(0);
  EXPECT_FALSE(table.choices(Stream::kCollector, kMaxOpen).free);
}

// Writers stop where two bands are free; what the collector then moves keeps its streams.
TEST_F(BandChoiceTest, CollectorsOtherStreamsBeginBandsOfTheReserveToo) {
  fill_all_but(3);
  append(table.choices(Stream::kCollector, kMaxOpen).free.value(), 1, Stream::kCollector);
  const OpenChoice choice = table.choices(Stream::kCollectorOld, kMaxOpen);
  EXPECT_TRUE(choice.free);
  EXPECT_TRUE(choice.open.empty());
}

TEST_F(BandChoiceTest, CollectorsOtherStreamsBeginTheLastFreeBandOnlyWhenNoneIsOpen) {
  const BandId open = begin_last_but_one(Stream::kCollector);
  const OpenChoice choice = table.choices(Stream::kCollectorOld, kMaxOpen);
  EXPECT_FALSE(choice.free);
  EXPECT_EQ(choice.open.size(), 1u);
  append(open, kBandBlocks - 1, Stream::kCollector);
  EXPECT_TRUE(table.choices(Stream::kCollectorOld, kMaxOpen).free);
}

TEST_F(BandChoiceTest, NoStreamOfTheCollectorBeginsTheLastFreeBandBesideAnOpenOneOfAnother) {
  const BandId open = begin_last_but_one(Stream::kCollectorOld);
  const OpenChoice choice = table.choices(Stream::kCollector, kMaxOpen);
  EXPECT_FALSE(choice.free);
  ASSERT_EQ(choice.open.size(), 1u);
  EXPECT_EQ(choice.open[0].band, open);
}

TEST_F(BandChoiceTest, OffersOtherStreamsBandsRatherThanNothing) {
  append(kFirst, 1, Stream::kCollector);
  fill_all_but(2);
  const OpenChoice choice = table.choices(Stream::kSmall, kMaxOpen);
  ASSERT_EQ(choice.open.size(), 1u);
  EXPECT_EQ(choice.open[0].band, kFirst);
  append(kFirst, 1, Stream::kSmall);
  EXPECT_EQ(table.choices(Stream::kSmall, kMaxOpen).open.size(), 1u);
}

TEST_F(BandChoiceTest, WaitsForALeaseBeforeItTakesOtherStreamsBands) {
  append(kFirst, 1, Stream::kCollector);
  append(kLast, 1, Stream::kSmall);
  fill_all_but(2);
  ASSERT_TRUE(table.lease(kLast, Stream::kSmall));
  const OpenChoice choice = table.choices(Stream::kSmall, kMaxOpen);
  EXPECT_TRUE(choice.open.empty());
  EXPECT_TRUE(choice.own_leased);
  table.end_lease(kLast, false, false);
}

// ---- log bands ----------------------------------------------------------------------------------

TEST_F(BandChoiceTest, GivesTheLogTheFreeBandNearestTheCentre) {
  EXPECT_EQ(table.take_for_log(), BandId{9});  // of two as near, the lower
  EXPECT_EQ(table.take_for_log(), BandId{11});
  append(BandId{8}, 1);
  EXPECT_EQ(table.take_for_log(), BandId{12});
  table.give_back_from_log(BandId{9});
  EXPECT_EQ(table.take_for_log(), BandId{9});
  EXPECT_FALSE(table.is_data(BandId{9}));
}

TEST_F(BandChoiceTest, GivesTheLogABandFromBelowOrAboveTheCentreAlone) {
  for (std::uint32_t i = 11; i < kBands; ++i) append(BandId{i}, 1);
  EXPECT_EQ(table.take_for_log(), BandId{9});
  for (std::uint32_t i = 2; i < 9; ++i) append(BandId{i}, 1);
  EXPECT_FALSE(table.take_for_log());
}

TEST(BandChoiceForLogTest, GivesTheLogNoConventionalBandAndNoSmallOne) {
  device::Geometry geometry = geometry_of(10);
  geometry.band_kinds[5] = geometry.band_kinds[6] = device::BandKind::kConventional;
  geometry.band_blocks[4] = 3;
  BandTable table(geometry, kSuperBands, {});
  EXPECT_EQ(table.take_for_log(4), BandId{3});
  EXPECT_EQ(table.take_for_log(3), BandId{4});
  EXPECT_EQ(table.take_for_log(4), BandId{7});
  EXPECT_EQ(table.take_for_log(11), fail(Errc::kNoSpace));
  EXPECT_EQ(table.check_invariants(), "");
}

TEST_F(BandChoiceTest, LeavesTheCollectorOneBandWhenTheLogAsks) {
  fill_all_but(2);
  EXPECT_TRUE(table.take_for_log());
  EXPECT_EQ(table.take_for_log(), fail(Errc::kNoSpace));
}

}  // namespace
}  // namespace lazyfs::data
