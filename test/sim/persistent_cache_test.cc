#include "sim/persistent_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "sim/random.h"
#include "test/support/seed.h"

namespace lazyfs::sim {
namespace {

constexpr std::uint64_t kBand = 1000;

class PersistentCacheTest : public testing::Test {
 protected:
  Bands bands_{{{0, kBand}}, 100 * kBand};
  PersistentCache cache_{bands_, 1'000'000};
};

TEST(BandsTest, FollowTheZonesAndEndWithTheDisk) {
  const Bands bands({{0, 100}, {1000, 30}}, 1100);
  EXPECT_EQ(bands.count(), 10u + 4);
  EXPECT_EQ(bands.of(999).number, 9u);
  EXPECT_EQ(bands.of(1000).number, 10u);
  EXPECT_EQ(bands.of(1099).number, 13u);
  EXPECT_EQ(bands.of(1099).sectors, 10u);
}

TEST_F(PersistentCacheTest, FindsWhatWasWritten) {
  cache_.write(100, 8);
  EXPECT_EQ(cache_.find(100, 8).log_sector, 0u);
  EXPECT_EQ(cache_.find(104, 8).log_sector, 4u);
  EXPECT_EQ(cache_.find(104, 8).sectors, 4u);
  EXPECT_EQ(cache_.find(108, 8).log_sector, std::nullopt);
  EXPECT_EQ(cache_.find(90, 100).sectors, 10u);
}

TEST_F(PersistentCacheTest, AnOverwriteTakesNoFurtherExtent) {
  cache_.write(100, 8);
  EXPECT_EQ(cache_.new_extents(100, 8), 0u);
  cache_.write(100, 8);
  EXPECT_EQ(cache_.extents(), 1u);
  EXPECT_EQ(cache_.find(100, 8).log_sector, 8u);
  EXPECT_EQ(cache_.new_extents(200, 8), 1u);
}

TEST_F(PersistentCacheTest, AWriteInTheMiddleSplitsAnExtent) {
  cache_.write(100, 30);
  cache_.write(110, 10);
  EXPECT_EQ(cache_.extents(), 3u);
  EXPECT_EQ(cache_.find(105, 100).log_sector, 5u);
  EXPECT_EQ(cache_.find(110, 100).log_sector, 30u);
  EXPECT_EQ(cache_.find(120, 100).log_sector, 20u);
}

TEST_F(PersistentCacheTest, ExtentsEndAtTheBoundaryOfABand) {
  cache_.write(kBand - 10, 20);
  EXPECT_EQ(cache_.extents(), 2u);
  EXPECT_EQ(cache_.dirty_bands(), 2u);
}

TEST_F(PersistentCacheTest, BandsAreCleanedInTheOrderInWhichTheyBecameDirty) {
  cache_.write(5 * kBand, 8);
  cache_.write(2 * kBand + 50, 8);
  cache_.write(5 * kBand + 16, 8);
  cache_.write(5 * kBand, 16);  // replaces the first one: the band keeps its place
  const auto first = cache_.oldest();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->band.number, 5u);
  EXPECT_EQ(first->extents, 2u);
  EXPECT_EQ(first->sectors, 24u);
  EXPECT_EQ(first->log_sectors, 8u);  // up to the first write of the next band
  EXPECT_EQ(cache_.used_sectors(), 40u);
  cache_.clean(first->band);
  const auto second = cache_.oldest();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->band.number, 2u);
  EXPECT_EQ(second->first_sector, 2 * kBand + 50);
  EXPECT_EQ(cache_.used_sectors(), 32u);
  cache_.clean(second->band);
  EXPECT_FALSE(cache_.oldest());
  EXPECT_EQ(cache_.used_sectors(), 0u);
}

TEST_F(PersistentCacheTest, ForgettingTheLastExtentMakesABandClean) {
  cache_.write(100, 8);
  cache_.forget(0, 50 * kBand);
  EXPECT_EQ(cache_.extents(), 0u);
  EXPECT_FALSE(cache_.oldest());
}

TEST_F(PersistentCacheTest, AgreesWithAMapOfSingleSectorsAfterRandomWork) {
  SCOPED_TRACE(seed_trace());
  Random random(test_seed());
  std::map<std::uint64_t, std::uint64_t> model;  // sector: place in the log
  std::uint64_t head = 0;
  for (int step = 0; step < 3000; ++step) {
    const std::uint64_t sector = random.below(20 * kBand), sectors = 1 + random.below(300);
    if (random.below(10) == 0) {
      cache_.forget(sector, sectors);
      model.erase(model.lower_bound(sector), model.lower_bound(sector + sectors));
    } else if (const auto oldest = cache_.oldest(); oldest && random.below(20) == 0) {
      cache_.clean(oldest->band);
      model.erase(model.lower_bound(oldest->band.first_sector),
                  model.lower_bound(oldest->band.end()));
    } else {
      cache_.write(sector, sectors);
      for (std::uint64_t i = 0; i < sectors; ++i) model[sector + i] = head++;
    }
    const std::uint64_t at = random.below(20 * kBand);
    const auto found = cache_.find(at, 1);
    const auto expected = model.find(at);
    ASSERT_EQ(found.log_sector.has_value(), expected != model.end()) << step;
    if (found.log_sector) {
      ASSERT_EQ(*found.log_sector, expected->second) << step;
    }
  }
}

}  // namespace
}  // namespace lazyfs::sim
