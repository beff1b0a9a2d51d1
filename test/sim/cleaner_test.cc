#include "sim/cleaner.h"

#include <gtest/gtest.h>

#include "sim/managed.h"
#include "sim/models.h"
#include "test/sim/units.h"

namespace lazyfs::sim {
namespace {

constexpr std::uint64_t kLongBand = 30 * kMib;

// 4,000 bands of 30 MiB, on tracks of 2 MiB that pass in 10 ms.
class CleanerTest : public testing::Test {
 protected:
  static MechanicsParameters mechanics_parameters() {
    MechanicsParameters parameters;
    parameters.revolution_ms = 10;
    return parameters;
  }
  static CleaningParameters cleaning(bool is_static) {
    CleaningParameters parameters;
    parameters.is_static = is_static;
    parameters.extent_ms = 4;
    parameters.sorted_extents = 256;
    parameters.further_extent_ms = 8;
    parameters.scan_ms = 44'000;
    return parameters;
  }
  // Updates the first block of so many bands and cleans them. Returns GiB moved.
  double moved_gib(std::uint64_t count, bool is_static) {
    const CleaningParameters parameters = cleaning(is_static);
    Cleaner cleaner(cache_, mechanics_, 0, parameters);
    for (std::uint64_t band = 0; band < count; ++band) cache_.write(band * kLongBand, 8);
    EXPECT_EQ(cache_.dirty_bands(), count);
    cleaner.work(1e12);
    EXPECT_EQ(cache_.dirty_bands(), 0u);
    EXPECT_EQ(cleaner.counters().bands, count);
    return static_cast<double>(cleaner.counters().moved_sectors) / static_cast<double>(kGib);
  }

  Geometry geometry_{1, {{0, 60'000, 4096, 0, 0, 0}}, 4000 * kLongBand};
  MechanicsParameters parameters_ = mechanics_parameters();
  Mechanics mechanics_{geometry_, parameters_};
  Bands bands_{{{0, kLongBand}}, 4000 * kLongBand};
  PersistentCache cache_{bands_, 35 * 1024 * kMib};
};

// ext4-lazy, section 3.1: 4,000 bands hold 120 GiB.
TEST_F(CleanerTest, MovesBandsThreeTimesWithStaticMapping) {
  EXPECT_NEAR(moved_gib(4000, true), 360 * 30 / 30.72, 0.1);
}

TEST_F(CleanerTest, MovesBandsTwiceWithDynamicMapping) {
  EXPECT_NEAR(moved_gib(4000, false), 240 * 30 / 30.72, 0.1);
}

TEST_F(CleanerTest, Moves22GibFor250Bands) {
  EXPECT_NEAR(moved_gib(250, true), 22.5 * 30 / 30.72, 0.1);
}

TEST_F(CleanerTest, RewritesABandFromItsFirstChangedSectorOn) {
  const PersistentCache::DirtyBand dirty{{0, 0, kLongBand}, 1, 8, kLongBand / 2, 8};
  EXPECT_EQ(cleaning_cost(dirty, geometry_, 0, 10, cleaning(true)).moved_sectors,
            3 * kLongBand / 2 - 8);
  EXPECT_EQ(cleaning_cost(dirty, geometry_, 0, 10, cleaning(false)).moved_sectors, 2 * kLongBand);
}

TEST_F(CleanerTest, NeedsNoScratchForABandThatTheCacheHoldsWhole) {
  const PersistentCache::DirtyBand dirty{{0, 0, kLongBand}, 1, kLongBand, 0, kLongBand};
  EXPECT_EQ(cleaning_cost(dirty, geometry_, 0, 10, cleaning(true)).moved_sectors, 2 * kLongBand);
}

TEST_F(CleanerTest, EarnsInProportionToItsProgress) {
  const CleaningParameters parameters = cleaning(true);
  Cleaner cleaner(cache_, mechanics_, 0, parameters);
  for (std::uint64_t i = 0; i < 100; ++i) cache_.write(i * 100, 8);
  const double all_ms =
      cleaning_cost(*cache_.oldest(), geometry_, 0, 10, parameters).time_ms;
  EXPECT_DOUBLE_EQ(cleaner.work(all_ms / 4), all_ms / 4);
  EXPECT_NEAR(cleaner.earned_extents(), 25, 1e-6);
  EXPECT_EQ(cache_.extents(), 100u);
  EXPECT_DOUBLE_EQ(cleaner.work(1e9), all_ms * 3 / 4);
  EXPECT_EQ(cache_.extents(), 0u);
  EXPECT_DOUBLE_EQ(cleaner.work(1000), 0);
}

// ---- The ST8000AS0002 ---------------------------------------------------------------------------

// Seconds that one band takes with so many cached blocks, spread evenly over it.
double band_seconds(std::uint64_t blocks) {
  ParameterSheet sheet;
  const auto disk = find_model("ST8000AS0002")->make(sheet);
  const auto& managed = dynamic_cast<const ManagedDisk&>(*disk);
  const Band band = managed.bands().of(disk->sectors() / 2);
  const std::uint64_t step = band.sectors / blocks / 8 * 8;
  double now_ms = 0;
  // The blocks are written in an order that is no sequence.
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t block = i * 2'654'435'761 % blocks;
    now_ms = disk->serve(now_ms, {.sector = band.first_sector + block * step, .sectors = 8,
                                  .op = Op::kWrite});
  }
  now_ms = disk->serve(now_ms, {.op = Op::kFlush});
  return (disk->settle(now_ms) - now_ms) / 1000;
}

TEST(St8000as0002CleaningTest, ABandTakesOneToTwoSecondsWith150To300Extents) {
  EXPECT_GT(band_seconds(150), 1.0);
  EXPECT_LT(band_seconds(150), 2.0);
  EXPECT_GT(band_seconds(300), 1.0);
  EXPECT_LT(band_seconds(300), 2.25);
}

TEST(St8000as0002CleaningTest, ABandTakes45SecondsWithAllOfItsBlocks) {
  EXPECT_NEAR(band_seconds(7000), 45, 1.5);
}

}  // namespace
}  // namespace lazyfs::sim
