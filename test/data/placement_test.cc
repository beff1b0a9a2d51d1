#include "data/placement.h"

#include <gtest/gtest.h>

#include <vector>

namespace lazyfs::data {
namespace {

const std::vector<Candidate> kCandidates{
    {.band = BandId{9}, .room_blocks = 8, .age = 0},
    {.band = BandId{3}, .room_blocks = 20, .age = 50},
    {.band = BandId{5}, .room_blocks = 10, .age = 90},
};

std::uint32_t band_for(Placement policy, const PlacementRequest& request) {
  const auto index = place(policy, kCandidates, request);
  return index ? kCandidates[*index].band.value : 0;
}

TEST(PlacementTest, TakesNothingWhereNothingIsOffered) {
  for (const Placement policy :
       {Placement::kFirstFit, Placement::kBestFit, Placement::kAgeFit, Placement::kRandom}) {
    EXPECT_FALSE(place(policy, {}, {.blocks = 1}));
  }
}

TEST(PlacementTest, FirstFitTakesTheLowestBand) {
  EXPECT_EQ(band_for(Placement::kFirstFit, {.blocks = 1}), 3u);
  EXPECT_EQ(band_for(Placement::kFirstFit, {.blocks = 1000}), 3u);
}

TEST(PlacementTest, BestFitTakesTheSmallestRoomThatHoldsTheRequest) {
  EXPECT_EQ(band_for(Placement::kBestFit, {.blocks = 1}), 9u);
  EXPECT_EQ(band_for(Placement::kBestFit, {.blocks = 8}), 9u);
  EXPECT_EQ(band_for(Placement::kBestFit, {.blocks = 9}), 5u);
  EXPECT_EQ(band_for(Placement::kBestFit, {.blocks = 11}), 3u);
}

TEST(PlacementTest, BestFitTakesTheLargestRoomWhenNoneHoldsTheRequest) {
  EXPECT_EQ(band_for(Placement::kBestFit, {.blocks = 21}), 3u);
}

TEST(PlacementTest, AgeFitTakesTheNearestAge) {
  EXPECT_EQ(band_for(Placement::kAgeFit, {.age = 0}), 9u);
  EXPECT_EQ(band_for(Placement::kAgeFit, {.age = 60}), 3u);
  EXPECT_EQ(band_for(Placement::kAgeFit, {.age = 1000}), 5u);
}

TEST(PlacementTest, TiesGoToTheLowerBand) {
  EXPECT_EQ(band_for(Placement::kAgeFit, {.age = 25}), 3u);  // 25 from band 9's and from band 3's
  EXPECT_EQ(band_for(Placement::kAgeFit, {.age = 70}), 3u);  // 20 from band 3's and from band 5's
}

TEST(PlacementTest, RandomTakesTheBandThatTheNumberSays) {
  EXPECT_EQ(band_for(Placement::kRandom, {.random = 0}), 9u);
  EXPECT_EQ(band_for(Placement::kRandom, {.random = 2}), 5u);
  EXPECT_EQ(band_for(Placement::kRandom, {.random = 4}), 3u);
}

}  // namespace
}  // namespace lazyfs::data
