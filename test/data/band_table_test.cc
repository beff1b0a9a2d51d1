#include "data/band_table.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "test/data/band_table_fixture.h"
#include "test/support/result_printer.h"
#include "test/support/seed.h"

namespace lazyfs::data {
namespace {

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

TEST_F(BandTableTest, StrikesCountOnWhenBandsAreAddedAndForTheNewOnesToo) {
  constexpr BandId kNew{kBands + 1};
  const auto fail_alone = [&](BandId band) {
    ASSERT_TRUE(table.lease(band, Stream::kSmall));
    table.end_lease(band, false, true);
    append(kLast, 1);
    if (!table.begin_retry(band)) return;
    table.finish_reset(band, true);
  };
  fail_alone(kFirst);
  fail_alone(kFirst);
  table.add_new(geometry_of(kBands + 2));
  fail_alone(kFirst);
  EXPECT_TRUE(table.view(kFirst).is_given_up);
  for (int i = 0; i < 3; ++i) fail_alone(kNew);
  EXPECT_TRUE(table.view(kNew).is_given_up);
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
  EXPECT_EQ(table.space().available, 0u);
  table.release(available);
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

TEST_F(BandTableTest, TheLogLeavesRoomForWhatUsersHaveReserved) {
  ASSERT_TRUE(table.reserve(table.space().available));
  while (table.take_for_log()) continue;
  EXPECT_GE(table.space().total, table.space().reserved + table.reserve_blocks());
  table.release(table.space().reserved);
}

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

TEST_F(BandTableTest, SealsTheBandsWithTheLeastRoomUntilFewAreOpen) {
  append(BandId{4}, 1);
  append(BandId{5}, 3);
  append(BandId{6}, 2);
  EXPECT_EQ(table.seal_all_but(3), std::vector<BandId>{});
  EXPECT_EQ(table.seal_all_but(1), (std::vector{BandId{5}, BandId{6}}));
  EXPECT_EQ(table.view(BandId{4}).state, BandState::kOpen);
  EXPECT_EQ(table.view(BandId{5}).state, BandState::kFull);
}

// ---- reset --------------------------------------------------------------------------------------

TEST_F(BandTableTest, SealsNoLeasedBandHoweverFewMayBeOpen) {
  append(kFirst, 1);
  append(kLast, 1, Stream::kLarge);
  ASSERT_TRUE(table.lease(kLast, Stream::kLarge));
  EXPECT_EQ(table.seal_all_but(0), std::vector{kFirst});
  table.end_lease(kLast, false, false);
}

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

TEST_F(BandTableTest, ResetsNoBandThatHoldsLiveBlocks) {
  append(kFirst, kBandBlocks);
  table.account_death(kFirst, kBandBlocks - 1, 1);
  EXPECT_FALSE(table.begin_reset(kFirst));
}

// ---- failing ------------------------------------------------------------------------------------

TEST_F(BandTableTest, BandIsTriedAgainUntilItHasFailedThreeTimes) {
  const auto fail_append = [&] {
    ASSERT_TRUE(table.lease(kFirst, Stream::kSmall));
    table.end_lease(kFirst, false, true);
    append(kLast, 1);
  };
  fail_append();
  ASSERT_TRUE(table.begin_retry(kFirst));
  table.finish_reset(kFirst, true);
  fail_append();
  EXPECT_FALSE(table.view(kFirst).is_given_up);
  ASSERT_TRUE(table.begin_retry(kFirst));
  table.finish_reset(kFirst, false);  // the third time
  EXPECT_FALSE(table.view(kFirst).is_given_up) << "the device may be to blame";
  append(kLast, 1);
  EXPECT_TRUE(table.view(kFirst).is_given_up);
  EXPECT_FALSE(table.begin_retry(kFirst));
}

TEST_F(BandTableTest, BandIsGivenUpAtOnceForFailuresThatAreCertainlyItsOwn) {
  append(kFirst, 1);
  table.account_death(kFirst, 1, 1);
  ASSERT_EQ(empty_bands(), Numbers{kFirst.value});
  ASSERT_TRUE(table.begin_reset(kFirst));
  table.finish_reset(kFirst, false, Blame::kBand);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(table.begin_retry(kFirst)) << i;
    table.finish_reset(kFirst, false, Blame::kBand);
    EXPECT_FALSE(table.view(kFirst).is_suspect);
  }
  EXPECT_TRUE(table.view(kFirst).is_given_up);
}

// The strike comes when the band is in use again: its live blocks count as before.
TEST_F(BandTableTest, BandThatGetsItsLastStrikeWhileItIsInUseIsEmptiedLikeOthers) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(table.lease(kFirst, Stream::kSmall));
    table.end_lease(kFirst, false, true);
    EXPECT_TRUE(table.view(kFirst).is_suspect);
    ASSERT_TRUE(table.begin_retry(kFirst));
    table.finish_reset(kFirst, true);
    EXPECT_FALSE(table.view(kFirst).is_suspect) << "it is not set aside any more";
    append(kLast, 1);
  }
  append(kFirst, 2);
  table.account_death(kFirst, 2, 1);
  EXPECT_EQ(table.view(kFirst).counters.live, 0u);
  EXPECT_EQ(empty_bands(), Numbers{kFirst.value});
}

TEST_F(BandTableTest, BandThatIsBlamedForNothingIsTriedAgainForEver) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(table.lease(kFirst, Stream::kSmall));
    table.end_lease(kFirst, false, true, Blame::kNone);
    append(kLast, 1);
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

TEST_F(BandTableTest, RetriesNoBandThatHasNotFailedOrIsBeingRead) {
  EXPECT_FALSE(table.begin_retry(kFirst));
  append(kFirst, 2);
  EXPECT_FALSE(table.begin_retry(kFirst));
  table.account_death(kFirst, 2, 1);
  table.set_bad(kFirst, false);
  {
    const BandPin pin = table.pin(kFirst);
    EXPECT_FALSE(table.begin_retry(kFirst));
  }
  EXPECT_TRUE(table.begin_retry(kFirst));
  table.finish_reset(kFirst, true);
}

// Of a damaged volume: files claim blocks of the band that it does not count.
TEST_F(BandTableTest, BandOfWhichMoreDiesThanItCountsIsNeverEmpty) {
  append(kFirst, kBandBlocks);
  table.account_death(kFirst, kBandBlocks - 1, 1);
  table.account_death(kFirst, 2, 1);
  EXPECT_EQ(table.view(kFirst).counters.live, 1u);
  EXPECT_EQ(empty_bands(), Numbers{});
}

TEST_F(BandTableTest, FilesOfADamagedVolumeMayClaimBlocksOfAnyBand) {
  table.account_death(BandId{kBands}, 1, 1);  // it does not exist
  EXPECT_FALSE(table.is_young(BandId{kBands}));
  table.account_death(kFirst, 1, 1);  // nothing is written in it
  EXPECT_EQ(table.view(kFirst).counters.live, 0u);
}

// It may have been set aside at the mount, and then counts nothing.
TEST_F(BandTableTest, BandThatIsSetAsideMayCountFewerThanDie) {
  append(kFirst, 2);
  table.set_bad(kFirst, false);
  table.account_death(kFirst, 3, 1);
  EXPECT_EQ(table.view(kFirst).counters.live, 0u);
  EXPECT_TRUE(table.begin_retry(kFirst));
  table.finish_reset(kFirst, true);
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

// Of a damaged volume: the records that were cut off say more than the band counts.
TEST_F(BandTableTest, BandWhoseRecordsContradictItIsSetAsideByACut) {
  append(kFirst, kBandBlocks);
  ASSERT_TRUE(table.begin_cut(kFirst));
  table.finish_cut(kFirst, {.blocks = 4, .append_records = 1, .delete_records = 0}, true);
  EXPECT_EQ(table.view(kFirst).state, BandState::kBad);
  EXPECT_EQ(table.view(kFirst).counters.live, kBandBlocks);
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
