#include "data/band_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "test/support/result_printer.h"
#include "test/support/seed.h"

namespace lazyfs::data {
namespace {

constexpr std::uint32_t kBandBlocks = 10;
constexpr std::array kSuperBands{BandId{0}, BandId{1}};
constexpr std::uint32_t kMaxOpen = 8;

device::Geometry geometry_of(std::uint32_t bands) {
  device::Geometry geometry;
  geometry.band_blocks.assign(bands, kBandBlocks);
  geometry.band_kinds.assign(bands, device::BandKind::kShingled);
  return geometry;
}

// Bands 0 and 1 hold superblocks, the one in the middle the log, all others file data.
class BandTableTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBands = 20;
  static constexpr std::array kLogBands{BandId{kBands / 2}};
  static constexpr BandId kFirst{2}, kLast{kBands - 1};

  ~BandTableTest() override { EXPECT_EQ(table.check_invariants(), ""); }

  // A lease with one append of `blocks`, all live.
  void append(BandId band, std::uint32_t blocks, Stream stream = Stream::kSmall) {
    ASSERT_TRUE(table.lease(band, stream));
    table.account_append(band, blocks, blocks, 1);
    table.end_lease(band, false, false);
  }
  void fill_all_but(std::uint32_t free_bands) {
    while (table.space().free_bands > free_bands) {
      append(*table.choices(Stream::kCollector, kMaxOpen).free, kBandBlocks);
    }
  }
  // One other band is free afterwards.
  BandId begin_last_but_one(Stream stream) {
    fill_all_but(2);
    const BandId band = table.choices(stream, kMaxOpen).free.value();
    append(band, 1, stream);
    return band;
  }
  // Appends to the rest of the band, and resets it when all of its data is dead.
  void fill_and_reset(BandId band, Stream stream, bool good = true) {
    append(band, kBandBlocks - static_cast<std::uint32_t>(table.view(band).counters.appended),
           stream);
    table.account_death(band, kBandBlocks, 1);
    ASSERT_EQ(empty_bands(), Numbers{band.value});
    ASSERT_TRUE(table.begin_reset(band));
    table.finish_reset(band, good);
  }
  // Appends that many bands of data that is not rewritten.
  void age_by(std::uint32_t bands) {
    const BandId band{kLast.value - 1};
    for (std::uint32_t i = 0; i < bands; ++i) fill_and_reset(band, Stream::kLarge);
  }
  using Numbers = std::vector<std::uint32_t>;
  std::vector<std::uint32_t> empty_bands() {
    std::vector<std::uint32_t> numbers;
    for (const BandId band : table.empty_bands()) numbers.push_back(band.value);
    return numbers;
  }

  BandTable table{geometry_of(kBands), kSuperBands, kLogBands};
};

TEST_F(BandTableTest, OffersNewBandsAtOnce) {
  const BandTable larger(geometry_of(3 * kBands), kSuperBands, kLogBands);
  append(kLast, 4);
  table.reserve(7);
  table.add_new(geometry_of(3 * kBands));
  EXPECT_EQ(table.band_count(), 3 * kBands);
  EXPECT_EQ(table.all().size(), 3 * kBands);
  EXPECT_EQ(table.space().capacity, larger.space().capacity);
  EXPECT_EQ(table.space().available, larger.space().available - 4 - 7);
  EXPECT_EQ(table.space().free_bands, 3 * kBands - 4);
  const BandId first_new{kBands}, last_new{3 * kBands - 1};
  for (const BandId band : {first_new, last_new}) {
    append(band, kBandBlocks);
    EXPECT_EQ(table.view(band).counters.live, kBandBlocks);
    EXPECT_TRUE(table.is_young(band));
  }
  table.add_new(geometry_of(3 * kBands));  // has none that are new
  EXPECT_EQ(table.band_count(), 3 * kBands);
}

TEST_F(BandTableTest, StartsWithEveryDataBandFree) {
  const SpaceCounts space = table.space();
  EXPECT_EQ(space.free_bands, kBands - 3);
  EXPECT_EQ(space.total, (kBands - 3) * kBandBlocks);
  EXPECT_EQ(space.unwritten, space.total);
  EXPECT_EQ(space.live + space.dead + space.reserved, 0u);
  EXPECT_FALSE(table.is_data(BandId{0}));
  EXPECT_FALSE(table.is_data(kLogBands[0]));
  EXPECT_TRUE(table.is_data(kFirst));
  EXPECT_FALSE(table.is_data(BandId{kBands}));
}

TEST_F(BandTableTest, CountsNoBandOfSizeZero) {
  device::Geometry geometry = geometry_of(kBands);
  geometry.band_blocks[5] = 0;  // part of a linked one
  const BandTable linked(geometry, kSuperBands, kLogBands);
  EXPECT_EQ(linked.space().free_bands, kBands - 4);
  EXPECT_EQ(linked.check_invariants(), "");
}

TEST_F(BandTableTest, RestoresFreeOpenAndFullBands) {
  table.restore(BandId{2}, {});
  table.restore(BandId{3}, {.appended = 4, .live = 3});
  table.restore(BandId{4}, {.appended = kBandBlocks, .live = 0});
  EXPECT_EQ(table.view(BandId{2}).state, BandState::kFree);
  EXPECT_EQ(table.view(BandId{3}).state, BandState::kOpen);
  EXPECT_EQ(table.view(BandId{4}).state, BandState::kFull);
  const SpaceCounts space = table.space();
  EXPECT_EQ(space.live, 3u);
  EXPECT_EQ(space.dead, 1u + kBandBlocks);
  EXPECT_EQ(space.unwritten, space.total - 4 - kBandBlocks);
}

TEST_F(BandTableTest, CountsTheRestOfAnOpenBandAsUnwrittenUntilItIsSealed) {
  table.restore(kFirst, {.appended = 4, .live = 3});
  table.restore(kLast, {.appended = 2, .live = 2});
  const SpaceCounts before = table.space();
  EXPECT_EQ(before.unwritten, before.total - 4 - 2);
  EXPECT_EQ(table.seal_all_but(1), std::vector{kFirst});
  EXPECT_EQ(table.space().unwritten, before.unwritten - (kBandBlocks - 4));
  EXPECT_EQ(table.space().dead, before.dead);
  EXPECT_EQ(table.space().available, before.available);
  table.account_death(kFirst, 3, 1);
  ASSERT_EQ(empty_bands(), Numbers{kFirst.value});
  ASSERT_TRUE(table.begin_reset(kFirst));
  table.finish_reset(kFirst, true);
  EXPECT_EQ(table.space().unwritten, before.total - 2);
}

TEST_F(BandTableTest, CountsAppendsAndDeaths) {
  append(kFirst, 6);
  table.account_death(kFirst, 2, 1);
  const BandView view = table.view(kFirst);
  EXPECT_EQ(view.counters.appended, 6u);
  EXPECT_EQ(view.counters.live, 4u);
  EXPECT_EQ(view.counters.append_records, 1u);
  EXPECT_EQ(view.counters.delete_records, 1u);
  EXPECT_EQ(table.space().live, 4u);
  EXPECT_EQ(table.space().dead, 2u);
}

TEST_F(BandTableTest, CountsNothingOfABadBand) {
  append(kFirst, 6);
  const SpaceCounts before = table.space();
  table.set_bad(kFirst);
  table.account_death(kFirst, 2, 1);
  const SpaceCounts after = table.space();
  EXPECT_EQ(after.total, before.total - kBandBlocks);
  EXPECT_EQ(after.live, 0u);
  EXPECT_EQ(after.dead, 0u);
}

TEST_F(BandTableTest, ReservesWhatIsAvailableAndNoBlockMore) {
  const std::uint64_t available = table.space().available;
  EXPECT_FALSE(table.reserve(available + 1));
  EXPECT_TRUE(table.reserve(available));
  EXPECT_FALSE(table.reserve(1));
  table.reserve_always(1);
  EXPECT_EQ(table.space().available, 0u);
  table.release(available + 1);
  EXPECT_EQ(table.space().available, available);
}

// Half the reserve, which is three bands of 10 blocks.
TEST_F(BandTableTest, FullTableHasSomeRoomForOverwritesButNoneForMore) {
  const std::uint64_t available = table.space().available;
  ASSERT_TRUE(table.reserve(available));
  EXPECT_FALSE(table.reserve_to_overwrite(1, 0));
  EXPECT_FALSE(table.reserve_to_overwrite(1, 5));
  EXPECT_FALSE(table.reserve_to_overwrite(0, 16));
  EXPECT_TRUE(table.reserve_to_overwrite(0, 15));
  EXPECT_FALSE(table.reserve_to_overwrite(0, 1));
  table.release(16);
  EXPECT_TRUE(table.reserve_to_overwrite(1, 14));
  table.release(available + 14);
  EXPECT_EQ(table.space().available, available);
}

TEST_F(BandTableTest, CountsDeaths) {
  append(kFirst, 7);
  table.account_death(kFirst, 3, 1);
  table.account_death(kFirst, 2, 1);
  EXPECT_EQ(table.deaths(), 5u);
}

// ---- leases -------------------------------------------------------------------------------------

TEST_F(BandTableTest, LeasesABandToOneOnly) {
  EXPECT_TRUE(table.lease(kFirst, Stream::kSmall));
  EXPECT_FALSE(table.lease(kFirst, Stream::kSmall));
  EXPECT_TRUE(table.choices(Stream::kSmall, kMaxOpen).own_leased);
  table.end_lease(kFirst, false, false);
  EXPECT_TRUE(table.lease(kFirst, Stream::kSmall));
  table.end_lease(kFirst, false, false);
}

TEST_F(BandTableTest, ALeaseWithoutAppendsLeavesTheBandFree) {
  ASSERT_TRUE(table.lease(kFirst, Stream::kSmall));
  EXPECT_EQ(table.view(kFirst).state, BandState::kOpen);
  table.end_lease(kFirst, false, false);
  EXPECT_EQ(table.view(kFirst).state, BandState::kFree);
}

TEST_F(BandTableTest, ABandIsFullWhenWrittenToItsEndOrSealed) {
  append(kFirst, kBandBlocks);
  EXPECT_EQ(table.view(kFirst).state, BandState::kFull);
  EXPECT_FALSE(table.lease(kFirst, Stream::kSmall));
  append(kLast, 1);
  EXPECT_TRUE(table.seal(kLast));
  EXPECT_EQ(table.view(kLast).state, BandState::kFull);
}

TEST_F(BandTableTest, SealsNoLeasedAndNoFreeBand) {
  EXPECT_FALSE(table.seal(kFirst));
  ASSERT_TRUE(table.lease(kFirst, Stream::kSmall));
  EXPECT_FALSE(table.seal(kFirst));
  table.end_lease(kFirst, false, false);
}

TEST_F(BandTableTest, SetsABandAsideWhoseAppendFailed) {
  ASSERT_TRUE(table.lease(kFirst, Stream::kSmall));
  table.end_lease(kFirst, false, true);
  EXPECT_EQ(table.view(kFirst).state, BandState::kBad);
  EXPECT_FALSE(table.lease(kFirst, Stream::kSmall));
}

// A lifespan is a fourth of the disk until bands of rewritten data have lived: 42 blocks.
TEST_F(BandTableTest, DataIsYoungForTwoLifespansAndOldAfterFour) {
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

TEST_F(BandTableTest, WhatWasThereAtTheMountIsOld) {
  table.restore(kFirst, {.appended = kBandBlocks, .live = 5});
  EXPECT_FALSE(table.is_young(kFirst));
  EXPECT_EQ(table.stream_for_moved(kFirst), Stream::kCollectorOld);
}

TEST_F(BandTableTest, MovedBlocksKeepTheirAge) {
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
TEST_F(BandTableTest, LifespansAreMeasured) {
  append(kFirst, 5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(table.is_young(kFirst));
    fill_and_reset(kLast, Stream::kRewritten);
  }
  EXPECT_TRUE(table.is_young(kFirst));  // 50 < 2 * 28
  append(kLast, kBandBlocks, Stream::kSmall);
  EXPECT_FALSE(table.is_young(kFirst));
}

TEST_F(BandTableTest, ABandThatWasOpenAtTheMountMeasuresNoLifespan) {
  table.restore(kLast, {.appended = 1, .live = 1});
  fill_and_reset(kLast, Stream::kRewritten);
  append(kFirst, 5);
  age_by(8);
  EXPECT_TRUE(table.is_young(kFirst));
  age_by(1);
  EXPECT_FALSE(table.is_young(kFirst));  // 90 > 2 * 42
}

// The band is reset once more before anything is appended to it.
TEST_F(BandTableTest, ABandWhoseResetFailedMeasuresOneLifespan) {
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

TEST_F(BandTableTest, OffersTheStreamsOwnOpenBandsAndTheFirstFreeOne) {
  append(BandId{4}, 1);
  append(BandId{5}, 1, Stream::kCollector);
  const OpenChoice choice = table.choices(Stream::kSmall, kMaxOpen);
  ASSERT_EQ(choice.open.size(), 1u);
  EXPECT_EQ(choice.open[0].band, BandId{4});
  EXPECT_EQ(choice.free, kFirst);
  EXPECT_FALSE(choice.own_leased);
}

TEST_F(BandTableTest, OffersTheFreeBandFromAGivenOneOnAroundTheEnd) {
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

TEST_F(BandTableTest, OffersNoFreeBandWhenEnoughAreOpen) {
  append(BandId{4}, 1);
  EXPECT_TRUE(table.choices(Stream::kSmall, 3).free);
  EXPECT_FALSE(table.choices(Stream::kSmall, 2).free);
}

TEST_F(BandTableTest, KeepsTheLastBandThatMayBeOpenForTheOtherClass) {
  append(BandId{4}, 1);
  EXPECT_FALSE(table.choices(Stream::kLarge, 2).free) << "it is the collector's";
  EXPECT_TRUE(table.choices(Stream::kCollector, 2).free);
  append(BandId{5}, 1, Stream::kCollector);
  EXPECT_FALSE(table.choices(Stream::kLarge, 2).free);
  EXPECT_TRUE(table.choices(Stream::kLarge, 3).free) << "both classes have a band";
}

TEST_F(BandTableTest, StreamsShareTheBandsOfTheirClassWhenNoMoreMayBeOpen) {
  append(BandId{4}, 1);
  append(BandId{5}, 1, Stream::kCollector);
  const OpenChoice large = table.choices(Stream::kLarge, 2, {}, false);
  ASSERT_EQ(large.open.size(), 1u);
  EXPECT_EQ(large.open[0].band, BandId{4});
  const OpenChoice old = table.choices(Stream::kCollectorOld, 2, {}, false);
  ASSERT_EQ(old.open.size(), 1u);
  EXPECT_EQ(old.open[0].band, BandId{5});
}

TEST_F(BandTableTest, AUserWaitsForASharedBandRatherThanTakeTheCollectors) {
  append(BandId{4}, 1);
  append(BandId{5}, 1, Stream::kCollector);
  ASSERT_TRUE(table.lease(BandId{4}, Stream::kSmall));
  const OpenChoice choice = table.choices(Stream::kLarge, 2, {}, false);
  EXPECT_TRUE(choice.open.empty());
  EXPECT_TRUE(choice.own_leased);
  EXPECT_FALSE(table.choices(Stream::kLarge, kMaxOpen, {}, false).own_leased);
  table.end_lease(BandId{4}, false, false);
}

TEST_F(BandTableTest, SealsTheBandsWithTheLeastRoomUntilFewAreOpen) {
  append(BandId{4}, 1);
  append(BandId{5}, 3);
  append(BandId{6}, 2);
  EXPECT_EQ(table.seal_all_but(3), std::vector<BandId>{});
  EXPECT_EQ(table.seal_all_but(1), (std::vector{BandId{5}, BandId{6}}));
  EXPECT_EQ(table.view(BandId{4}).state, BandState::kOpen);
  EXPECT_EQ(table.view(BandId{5}).state, BandState::kFull);
}

TEST_F(BandTableTest, KeepsTheLastFreeBandsForTheCollector) {
  fill_all_but(3);
  EXPECT_TRUE(table.choices(Stream::kSmall, kMaxOpen).free);
  fill_all_but(2);
  EXPECT_FALSE(table.choices(Stream::kSmall, kMaxOpen).free);
  EXPECT_TRUE(table.choices(Stream::kCollector, kMaxOpen).free);
  fill_all_but(0);
  EXPECT_FALSE(table.choices(Stream::kCollector, kMaxOpen).free);
}

// Writers stop where two bands are free; what the collector then moves keeps its streams.
TEST_F(BandTableTest, CollectorsOtherStreamsBeginBandsOfTheReserveToo) {
  fill_all_but(3);
  append(table.choices(Stream::kCollector, kMaxOpen).free.value(), 1, Stream::kCollector);
  const OpenChoice choice = table.choices(Stream::kCollectorOld, kMaxOpen);
  EXPECT_TRUE(choice.free);
  EXPECT_TRUE(choice.open.empty());
}

TEST_F(BandTableTest, CollectorsOtherStreamsBeginTheLastFreeBandOnlyWhenNoneIsOpen) {
  const BandId open = begin_last_but_one(Stream::kCollector);
  const OpenChoice choice = table.choices(Stream::kCollectorOld, kMaxOpen);
  EXPECT_FALSE(choice.free);
  EXPECT_EQ(choice.open.size(), 1u);
  append(open, kBandBlocks - 1, Stream::kCollector);
  EXPECT_TRUE(table.choices(Stream::kCollectorOld, kMaxOpen).free);
}

TEST_F(BandTableTest, NoStreamOfTheCollectorBeginsTheLastFreeBandBesideAnOpenOneOfAnother) {
  const BandId open = begin_last_but_one(Stream::kCollectorOld);
  const OpenChoice choice = table.choices(Stream::kCollector, kMaxOpen);
  EXPECT_FALSE(choice.free);
  ASSERT_EQ(choice.open.size(), 1u);
  EXPECT_EQ(choice.open[0].band, open);
}

TEST_F(BandTableTest, OffersOtherStreamsBandsRatherThanNothing) {
  append(kFirst, 1, Stream::kCollector);
  fill_all_but(2);
  const OpenChoice choice = table.choices(Stream::kSmall, kMaxOpen);
  ASSERT_EQ(choice.open.size(), 1u);
  EXPECT_EQ(choice.open[0].band, kFirst);
  append(kFirst, 1, Stream::kSmall);
  EXPECT_EQ(table.choices(Stream::kSmall, kMaxOpen).open.size(), 1u);
}

TEST_F(BandTableTest, WaitsForALeaseBeforeItTakesOtherStreamsBands) {
  append(kFirst, 1, Stream::kCollector);
  append(kLast, 1, Stream::kSmall);
  fill_all_but(2);
  ASSERT_TRUE(table.lease(kLast, Stream::kSmall));
  const OpenChoice choice = table.choices(Stream::kSmall, kMaxOpen);
  EXPECT_TRUE(choice.open.empty());
  EXPECT_TRUE(choice.own_leased);
  table.end_lease(kLast, false, false);
}

// ---- reset --------------------------------------------------------------------------------------

TEST_F(BandTableTest, NamesBandsThatHoldOnlyDeadBlocks) {
  append(BandId{2}, kBandBlocks);
  append(BandId{3}, kBandBlocks);
  append(BandId{4}, 2);
  table.account_death(BandId{2}, kBandBlocks, 1);
  table.account_death(BandId{3}, kBandBlocks - 1, 1);
  table.account_death(BandId{4}, 2, 1);
  EXPECT_EQ(empty_bands(), (Numbers{2, 4}));
}

TEST_F(BandTableTest, TheQuestionWhetherBandsAreEmptySealsNone) {
  append(kFirst, 2);
  EXPECT_FALSE(table.has_empty_bands());
  table.account_death(kFirst, 2, 1);
  EXPECT_TRUE(table.has_empty_bands());
  ASSERT_TRUE(table.lease(kFirst, Stream::kSmall));
  EXPECT_FALSE(table.has_empty_bands());
  table.end_lease(kFirst, false, false);
  const BandPin pin = table.pin(kFirst);
  EXPECT_FALSE(table.has_empty_bands());
}

TEST_F(BandTableTest, LetsNothingIntoABandThatItNamed) {
  append(kFirst, 2);
  table.account_death(kFirst, 2, 1);
  EXPECT_EQ(empty_bands(), Numbers{kFirst.value});
  EXPECT_FALSE(table.lease(kFirst, Stream::kSmall));
  EXPECT_TRUE(table.begin_reset(kFirst));
  EXPECT_FALSE(table.begin_reset(kFirst));
  table.finish_reset(kFirst, true);
  EXPECT_EQ(table.view(kFirst).state, BandState::kFree);
  EXPECT_EQ(table.view(kFirst).counters.appended, 0u);
}

TEST_F(BandTableTest, ResetsNoBandThatMayStillBeAppendedTo) {
  append(kFirst, 2);
  table.account_death(kFirst, 2, 1);
  EXPECT_FALSE(table.begin_reset(kFirst));
  ASSERT_TRUE(table.lease(kFirst, Stream::kSmall));
  EXPECT_EQ(empty_bands(), Numbers{});
  EXPECT_FALSE(table.begin_reset(kFirst));
  table.end_lease(kFirst, false, false);
}

TEST_F(BandTableTest, ResetsNoBandThatIsBeingRead) {
  append(kFirst, kBandBlocks);
  table.account_death(kFirst, kBandBlocks, 1);
  {
    const BandPin pin = table.pin(kFirst);
    EXPECT_EQ(empty_bands(), Numbers{});
    EXPECT_FALSE(table.begin_reset(kFirst));
  }
  EXPECT_EQ(empty_bands(), Numbers{kFirst.value});
  EXPECT_TRUE(table.begin_reset(kFirst));
  table.finish_reset(kFirst, true);
}

TEST_F(BandTableTest, SetsABandAsideWhoseResetFailed) {
  append(kFirst, kBandBlocks);
  table.account_death(kFirst, kBandBlocks, 1);
  ASSERT_EQ(empty_bands(), Numbers{kFirst.value});
  ASSERT_TRUE(table.begin_reset(kFirst));
  table.finish_reset(kFirst, false);
  EXPECT_EQ(table.view(kFirst).state, BandState::kBad);
  EXPECT_EQ(table.space().total, (kBands - 4) * kBandBlocks);
}

// ---- failing ------------------------------------------------------------------------------------

TEST_F(BandTableTest, BandIsTriedAgainUntilItHasFailedThreeTimes) {
  const auto fail_append = [&] {
    ASSERT_TRUE(table.lease(kFirst, Stream::kSmall));
    table.end_lease(kFirst, false, true);
  };
  fail_append();
  ASSERT_TRUE(table.begin_retry(kFirst));
  table.finish_reset(kFirst, true);
  fail_append();
  EXPECT_FALSE(table.view(kFirst).is_given_up);
  ASSERT_TRUE(table.begin_retry(kFirst));
  table.finish_reset(kFirst, false);  // the third time
  EXPECT_TRUE(table.view(kFirst).is_given_up);
  EXPECT_FALSE(table.begin_retry(kFirst));
}

TEST_F(BandTableTest, BandThatIsBlamedForNothingIsTriedAgainForEver) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(table.lease(kFirst, Stream::kSmall));
    table.end_lease(kFirst, false, true, false);
    ASSERT_TRUE(table.begin_retry(kFirst));
    table.finish_reset(kFirst, true);
  }
}

TEST_F(BandTableTest, BandWithLiveBlocksIsNotTriedAgain) {
  append(kFirst, 2);
  table.set_bad(kFirst, false);
  EXPECT_FALSE(table.begin_retry(kFirst));
  table.account_death(kFirst, 2, 1);
  EXPECT_TRUE(table.begin_retry(kFirst));
  table.finish_reset(kFirst, true);
}

TEST_F(BandTableTest, NamesUnreadableBandsOnceAndNoneThatIsSetAside) {
  append(kFirst, 2);
  append(kLast, 2);
  table.set_bad(kLast);
  table.note_unreadable(kFirst);
  table.note_unreadable(kFirst);
  table.note_unreadable(kLast);
  table.note_unreadable(BandId{0});  // superblocks
  EXPECT_EQ(table.take_unreadable(), std::vector{kFirst});
  EXPECT_EQ(table.take_unreadable(), std::vector<BandId>{});
}

// Of a damaged volume: files claim blocks of the band that it does not count.
TEST_F(BandTableTest, BandOfWhichMoreDiesThanItCountsIsNeverEmpty) {
  append(kFirst, kBandBlocks);
  table.account_death(kFirst, kBandBlocks - 1, 1);
  table.account_death(kFirst, 2, 1);
  EXPECT_EQ(table.view(kFirst).counters.live, 1u);
  EXPECT_EQ(empty_bands(), Numbers{});
}

// ---- cutting ------------------------------------------------------------------------------------

TEST_F(BandTableTest, BandThatWasCutTakesAppendsAgain) {
  append(kFirst, kBandBlocks);
  table.account_death(kFirst, 4, 1);
  const std::uint64_t unwritten = table.space().unwritten;
  ASSERT_TRUE(table.begin_cut(kFirst));
  EXPECT_FALSE(table.lease(kFirst, Stream::kSmall));
  table.finish_cut(kFirst, {.blocks = 4, .append_records = 0, .delete_records = 1}, true);
  EXPECT_EQ(table.view(kFirst).state, BandState::kOpen);
  EXPECT_EQ(table.view(kFirst).counters.appended, kBandBlocks - 4u);
  EXPECT_EQ(table.view(kFirst).counters.delete_records, 0u);
  EXPECT_EQ(table.space().unwritten, unwritten + 4);
  EXPECT_EQ(table.space().dead, 0u);
}

TEST_F(BandTableTest, BandThatCouldNotBeCutIsSetAside) {
  append(kFirst, kBandBlocks);
  table.account_death(kFirst, 4, 1);
  ASSERT_TRUE(table.begin_cut(kFirst));
  table.finish_cut(kFirst, {.blocks = 4, .append_records = 0, .delete_records = 1}, false);
  EXPECT_EQ(table.view(kFirst).state, BandState::kBad);
}

TEST_F(BandTableTest, CutsNoBandThatIsReadOrOpenOrEmpty) {
  append(kFirst, kBandBlocks);
  {
    const BandPin pin = table.pin(kFirst);
    EXPECT_FALSE(table.begin_cut(kFirst));
  }
  table.account_death(kFirst, kBandBlocks, 1);
  EXPECT_FALSE(table.begin_cut(kFirst));
  append(kLast, 2);
  EXPECT_FALSE(table.begin_cut(kLast));
}

// ---- log bands ----------------------------------------------------------------------------------

TEST_F(BandTableTest, GivesTheLogTheFreeBandNearestTheCentre) {
  EXPECT_EQ(table.take_for_log(), BandId{9});  // of two as near, the lower
  EXPECT_EQ(table.take_for_log(), BandId{11});
  append(BandId{8}, 1);
  EXPECT_EQ(table.take_for_log(), BandId{12});
  table.give_back_from_log(BandId{9});
  EXPECT_EQ(table.take_for_log(), BandId{9});
  EXPECT_FALSE(table.is_data(BandId{9}));
}

TEST_F(BandTableTest, GivesTheLogABandFromBelowOrAboveTheCentreAlone) {
  for (std::uint32_t i = 11; i < kBands; ++i) append(BandId{i}, 1);
  EXPECT_EQ(table.take_for_log(), BandId{9});
  for (std::uint32_t i = 2; i < 9; ++i) append(BandId{i}, 1);
  EXPECT_FALSE(table.take_for_log());
}

TEST(BandTableLogTest, GivesTheLogNoConventionalBandAndNoSmallOne) {
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

TEST_F(BandTableTest, LeavesTheCollectorOneBandWhenTheLogAsks) {
  fill_all_but(2);
  EXPECT_TRUE(table.take_for_log());
  EXPECT_EQ(table.take_for_log(), fail(Errc::kNoSpace));
}

// ---- at random ----------------------------------------------------------------------------------

// Does whatever is allowed next, many times; sums and lists must agree with the bands each time.
class RandomSteps {
 public:
  explicit RandomSteps(BandTable& table) : table_(table), random_(test_seed()) {}

  void step() {
    switch (below(8)) {
      case 0: return append();
      case 1: return kill();
      case 2: return reset();
      case 3: return ignore(table_.seal(any()));
      case 4: return take_log_band();
      case 5: return give_back_log_band();
      case 6: return fail_an_append();
      case 7: return look();
    }
  }

 private:
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }
  BandId any() { return BandId{below(table_.band_count())}; }
  static void ignore(bool) {}

  void append() {
    const Stream stream = below(2) == 0 ? Stream::kSmall : Stream::kCollector;
    const OpenChoice choice = table_.choices(stream, 1 + below(4), any());
    std::optional<BandId> band = choice.free;
    if (!choice.open.empty()) band = choice.open[below(choice.open.size())].band;
    if (!band) return;
    ASSERT_TRUE(table_.lease(*band, stream));
    const BandView view = table_.view(*band);
    const auto room = static_cast<std::uint32_t>(view.blocks - view.counters.appended);
    ASSERT_GT(room, 0u);
    const std::uint32_t blocks = below(room + 1);
    if (blocks > 0) table_.account_append(*band, blocks, below(blocks + 1), 1);
    table_.end_lease(*band, below(4) == 0, false);
  }
  void kill() {
    const BandView view = table_.view(any());
    if (view.counters.live == 0) return;
    const auto blocks = 1 + below(static_cast<std::uint32_t>(view.counters.live));
    table_.account_death(view.band, blocks, 1);
  }
  void reset() {
    for (const BandId band : table_.empty_bands()) {
      ASSERT_TRUE(table_.begin_reset(band));
      table_.finish_reset(band, below(50) > 0);
    }
  }
  void take_log_band() {
    if (const auto band = table_.take_for_log()) log_bands_.push_back(*band);
  }
  void give_back_log_band() {
    if (log_bands_.empty()) return;
    table_.give_back_from_log(log_bands_.back());
    log_bands_.pop_back();
  }
  void fail_an_append() {
    const auto free = table_.choices(Stream::kCollector, kMaxOpen).free;
    if (below(50) > 0 || !free) return;
    ASSERT_TRUE(table_.lease(*free, Stream::kCollector));
    table_.end_lease(*free, false, true);
  }
  void look() {
    const SpaceCounts space = table_.space();
    std::uint64_t sealed = 0;  // past the write pointers of full bands
    for (const BandView& view : table_.all()) {
      if (view.state == BandState::kFull) sealed += view.blocks - view.counters.appended;
    }
    EXPECT_EQ(space.live + space.dead + space.unwritten + sealed, space.total);
  }

  BandTable& table_;
  std::mt19937_64 random_;
  std::vector<BandId> log_bands_;
};

TEST(BandTableRandomTest, SumsAndListsAgreeWithTheBandsAfterEveryStep) {
  SCOPED_TRACE(seed_trace());
  BandTable table(geometry_of(60), kSuperBands, std::array{BandId{30}});
  RandomSteps steps(table);
  for (int i = 0; i < 5000; ++i) {
    steps.step();
    ASSERT_EQ(table.check_invariants(), "") << "after step " << i;
  }
}

}  // namespace
}  // namespace lazyfs::data
