#include "gc/victim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "test/support/seed.h"

namespace lazyfs::gc {
namespace {

using Bands = std::vector<BandUse>;
using Tails = std::vector<TailUse>;

std::optional<BandId> band(std::uint32_t number) { return BandId{number}; }

// ---- Whole bands --------------------------------------------------------------------------------

TEST(GreedyTest, PicksTheBandWithMostDeadBlocks) {
  const Bands bands = {{BandId{1}, 100, 60}, {BandId{2}, 100, 40}, {BandId{3}, 100, 50}};
  EXPECT_EQ(pick_greedy(bands), band(2));
}

TEST(GreedyTest, CountsBlocksNotShares) {
  const Bands bands = {{BandId{1}, 10, 0}, {BandId{2}, 1000, 900}};
  EXPECT_EQ(pick_greedy(bands), band(2));
}

TEST(GreedyTest, PicksNothingWhenNothingIsDead) {
  EXPECT_EQ(pick_greedy({}), std::nullopt);
  EXPECT_EQ(pick_greedy(Bands{{BandId{1}, 100, 100}, {BandId{2}, 0, 0}}), std::nullopt);
}

TEST(GreedyTest, GivesATieToTheLowerBandWhateverTheOrder) {
  EXPECT_EQ(pick_greedy(Bands{{BandId{7}, 100, 50}, {BandId{4}, 90, 40}}), band(4));
  EXPECT_EQ(pick_greedy(Bands{{BandId{4}, 90, 40}, {BandId{7}, 100, 50}}), band(4));
}

TEST(CostBenefitTest, PrefersAnOldBandToAnEmptierYoungOne) {
  const Bands bands = {{BandId{1}, 100, 50, 10}, {BandId{2}, 100, 75, 1000}};
  EXPECT_EQ(pick_greedy(bands), band(1));
  EXPECT_EQ(pick_cost_benefit(bands), band(2));
}

TEST(CostBenefitTest, PicksTheEmptierOfTwoEquallyOld) {
  EXPECT_EQ(pick_cost_benefit(Bands{{BandId{1}, 100, 75, 5}, {BandId{2}, 100, 50, 5}}), band(2));
}

TEST(CostBenefitTest, ComparesBandsThatWereAppendedToJustNow) {
  EXPECT_EQ(pick_cost_benefit(Bands{{BandId{1}, 100, 75, 0}, {BandId{2}, 100, 50, 0}}), band(2));
}

TEST(CostBenefitTest, DividesByTheCostOfReadingTheBandAndWritingWhatIsLive) {
  EXPECT_EQ(pick_cost_benefit(Bands{{BandId{1}, 100, 50, 9}, {BandId{2}, 100, 75, 21}}), band(1));
  EXPECT_EQ(pick_cost_benefit(Bands{{BandId{1}, 100, 50, 9}, {BandId{2}, 100, 75, 23}}), band(2));
}

TEST(CostBenefitTest, AnOldBandNeedsHalfOfTheDeadShareOfAllBands) {
  EXPECT_EQ(pick_cost_benefit(Bands{{BandId{1}, 100, 88, 1000}, {BandId{2}, 100, 62, 0}}), band(2));
  EXPECT_EQ(pick_cost_benefit(Bands{{BandId{1}, 100, 87, 1000}, {BandId{2}, 100, 61, 0}}), band(1));
}

TEST(CostBenefitTest, PicksNothingWhenNothingIsDead) {
  EXPECT_EQ(pick_cost_benefit({}), std::nullopt);
  EXPECT_EQ(pick_cost_benefit(Bands{{BandId{1}, 100, 100, 1000}, {BandId{2}, 0, 0, 9}}),
            std::nullopt);
}

TEST(CostBenefitTest, GivesATieToTheLowerBandWhateverTheOrder) {
  EXPECT_EQ(pick_cost_benefit(Bands{{BandId{7}, 100, 50, 3}, {BandId{4}, 10, 5, 3}}), band(4));
}

TEST(VictimTest, TheChoiceDoesNotDependOnTheOrderOfTheBands) {
  SCOPED_TRACE(seed_trace());
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 200; ++round) {
    Bands bands;
    for (std::uint32_t i = 0; i < 12; ++i) {
      const std::uint64_t written = random() % 9;
      bands.push_back({BandId{i}, written, written ? random() % (written + 1) : 0, random() % 4});
    }
    const auto greedy = pick_greedy(bands), cost_benefit = pick_cost_benefit(bands);
    std::ranges::shuffle(bands, random);
    EXPECT_EQ(pick_greedy(bands), greedy);
    EXPECT_EQ(pick_cost_benefit(bands), cost_benefit);
    const auto has_dead = [](const BandUse& b) { return b.live_blocks < b.written_blocks; };
    EXPECT_EQ(greedy.has_value(), std::ranges::any_of(bands, has_dead));
  }
}

TEST(VictimScopeTest, OpenBandsComeOnlyWhenNoFullBandIsAVictim) {
  const Bands full = {{BandId{1}, 100, 90}}, open = {{BandId{2}, 50, 10}};
  EXPECT_EQ(pick_victim(full, open, CleanMode::kAuto, {.with_open = true})->band, BandId{1});
  EXPECT_EQ(pick_victim({}, open, CleanMode::kAuto, {.with_open = true})->band, BandId{2});
  EXPECT_FALSE(pick_victim({}, open, CleanMode::kAuto, {.with_open = false}));
}

TEST(VictimScopeTest, BandsWithLittleDeadAreOutOfScope) {
  const Bands full = {{BandId{1}, 100, 88}}, open = {{BandId{2}, 50, 44}};
  const VictimScope thirteen{.with_open = true, .least_dead_percent = 13};
  EXPECT_FALSE(pick_victim(full, open, CleanMode::kAuto, thirteen));
  const VictimScope twelve{.with_open = true, .least_dead_percent = 12};
  EXPECT_TRUE(pick_victim(full, open, CleanMode::kAuto, twelve));
  const Bands dead_open = {{BandId{2}, 50, 43}};
  EXPECT_EQ(pick_victim(full, dead_open, CleanMode::kAuto, thirteen)->band, BandId{2});
}

TEST(VictimScopeTest, OnlyGreedyCleaningDisregardsAge) {
  const Bands full = {{BandId{1}, 100, 50, 10}, {BandId{2}, 100, 75, 1000}};
  EXPECT_EQ(pick_victim(full, {}, CleanMode::kGreedy, {})->band, BandId{1});
  for (const CleanMode mode : {CleanMode::kWhole, CleanMode::kTail, CleanMode::kAuto}) {
    EXPECT_EQ(pick_victim(full, {}, mode, {})->band, BandId{2});
  }
}

TEST(VictimScopeTest, GreedyCleaningKeepsToTheScope) {
  const Bands full = {{BandId{1}, 100, 95}}, open = {{BandId{2}, 50, 10}};
  const VictimScope full_only{.least_dead_percent = 13};
  const VictimScope with_open{.with_open = true, .least_dead_percent = 13};
  EXPECT_FALSE(pick_victim(full, open, CleanMode::kGreedy, full_only));
  EXPECT_EQ(pick_victim(full, open, CleanMode::kGreedy, with_open)->band, BandId{2});
}

// ---- Tails --------------------------------------------------------------------------------------

TEST(TailTest, HasTheProfitsOfTheThesisFigure10) {
  EXPECT_EQ(tail_profit(10, 10), 2);  // band A: S = 20
  EXPECT_EQ(tail_profit(30, 15), 3);  // band B: S = 45
}

TEST(TailTest, PicksBandBOfFigure10ThoughItsHoleIsFartherFromTheWritePointer) {
  EXPECT_EQ(pick_tail(Tails{{BandId{0}, 10, 10}, {BandId{1}, 30, 15}}), band(1));
}

TEST(TailTest, AHoleThatNothingFollowsIsTheBestOfAll) {
  EXPECT_EQ(tail_profit(1, 0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(pick_tail(Tails{{BandId{0}, 1000, 1}, {BandId{1}, 1, 0}}), band(1));
}

TEST(TailTest, ATailWithoutAHoleGainsNothing) {
  EXPECT_EQ(tail_profit(0, 0), 0);
  EXPECT_EQ(tail_profit(0, 5), 1);
  EXPECT_EQ(pick_tail(Tails{{BandId{0}, 0, 5}, {BandId{1}, 0, 0}}), std::nullopt);
  EXPECT_EQ(pick_tail({}), std::nullopt);
}

TEST(TailTest, OfEqualProfitsTakesTheLargerGainAndThenTheLowerBand) {
  EXPECT_EQ(pick_tail(Tails{{BandId{3}, 10, 10}, {BandId{5}, 20, 20}}), band(5));
  EXPECT_EQ(pick_tail(Tails{{BandId{5}, 20, 20}, {BandId{3}, 20, 20}}), band(3));
  EXPECT_EQ(pick_tail(Tails{{BandId{5}, 3, 0}, {BandId{3}, 7, 0}}), band(3));
}

TEST(TailPays, WhenItGainsMoreForEachBlockMovedThanTheWholeBand) {
  const TailUse tail{BandId{1}, 30, 15};  // profit 3
  EXPECT_TRUE(tail_pays(tail, BandUse{BandId{2}, 100, 34}, 1));
  EXPECT_FALSE(tail_pays(tail, BandUse{BandId{2}, 90, 30}, 1));
  EXPECT_FALSE(tail_pays(tail, BandUse{BandId{2}, 100, 0}, 1));
  EXPECT_TRUE(tail_pays(tail, std::nullopt, 1));
}

TEST(TailPays, NotForLittleOrForNoHole) {
  EXPECT_TRUE(tail_pays({BandId{1}, 30, 15}, std::nullopt, 45));
  EXPECT_FALSE(tail_pays({BandId{1}, 30, 15}, std::nullopt, 46));
  EXPECT_FALSE(tail_pays({BandId{1}, 0, 15}, std::nullopt, 1));
}

}  // namespace
}  // namespace lazyfs::gc
