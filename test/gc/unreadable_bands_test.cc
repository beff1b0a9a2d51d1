// The collector where blocks, or the metadata of blocks, cannot be read.
#include "gc/collector.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "collector_fixture.h"

namespace lazyfs::gc {
namespace {

// ---- unreadable bands on a full disk ------------------------------------------------------------

// Three bands are free. The others are full: the first six live, the rest to one half. A block of
// each of the first four cannot be read, as long as `is_broken_`.
class UnreadableBandsTest : public CollectorTest {
 protected:
  UnreadableBandsTest() {
    std::uint64_t end = 0;
    for (; bands_.space().free_bands > 3; end += 4) files_.write(kFile, end, 4);
    while (bands_.view(BandId{kBands - 4}).state == data::BandState::kOpen) {
      files_.write(kFile, end++, 1);
    }
    for (std::uint64_t i = 6 * kBandBlocks; i < end; i += 2) files_.remove(kFile, i);
    faulty_.fail_when([this](const CallInfo& info) -> std::optional<Fault> {
      const bool is_hit = info.call == Call::kRead && info.at.band.value < kUnreadable &&
                          info.at.rba <= kBroken && kBroken < info.at.rba + info.blocks;
      return is_hit && is_broken_ ? std::optional(Fault{Errc::kDeviceRead}) : std::nullopt;
    });
  }
  data::BandState state_of(std::uint32_t band) const { return bands_.view(BandId{band}).state; }
  // Moving the first band leaves two free bands. Then the second one is the best victim.
  void make_second_band_the_victim() {
    bands_.note_unreadable(BandId{0});
    ASSERT_EQ(collector_.evacuate_failed_bands(), ok());
    ASSERT_EQ(bands_.space().free_bands, 2u);
    for (std::uint64_t i = 0; i < kBandBlocks; ++i) {
      if (i != kBroken && i != 0) files_.remove(kFile, kBandBlocks + i);
    }
    do {
      ASSERT_EQ(collector_.clean_unit({}), true);
    } while (collector_.is_cleaning());
    ASSERT_EQ(state_of(1), data::BandState::kBad);
    ASSERT_EQ(bands_.space().free_bands, 2u);
  }
  static constexpr std::uint32_t kUnreadable = 4, kBroken = 5;
  bool is_broken_ = true;
};

TEST_F(UnreadableBandsTest, TheyAreMovedWhenCleaningHasFreedTheReserve) {
  for (std::uint32_t band = 0; band < kUnreadable; ++band) bands_.note_unreadable(BandId{band});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(bands_.space().free_bands, 2u);
  EXPECT_TRUE(collector_.make_room());
  EXPECT_EQ(collector_.clean_all(), ok());
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  for (std::uint32_t band = 0; band < kUnreadable; ++band) {
    EXPECT_EQ(state_of(band), data::BandState::kBad);
    EXPECT_EQ(live_in(band), 1u);
  }
  EXPECT_GE(bands_.space().free_bands, 2u);
}

TEST_F(UnreadableBandsTest, AVictimThatCannotBeReadIsMovedWhenCleaningHasFreedTheReserve) {
  make_second_band_the_victim();
  EXPECT_EQ(live_in(1), 2u) << "nothing was moved out of it";
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(live_in(1), 2u);
  EXPECT_EQ(collector_.clean_all(), ok());
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(live_in(1), 1u);
}

TEST_F(UnreadableBandsTest, AVictimIsUsedAgainWhenItCanBeReadAgain) {
  make_second_band_the_victim();
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  clock_.time += std::chrono::minutes(1);
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(live_in(1), 2u);
  is_broken_ = false;
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(live_in(1), 2u) << "it is read again after a pause";
  clock_.time += std::chrono::minutes(2);
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(state_of(1), data::BandState::kFree);
}

TEST_F(UnreadableBandsTest, ABandThatIsGivenUpIsMovedWhenCleaningHasFreedTheReserve) {
  files_.write(InodeNo{4}, 0, 1);
  ASSERT_EQ(bands_.space().free_bands, 2u);
  bands_.set_bad(BandId{4});
  bands_.set_bad(BandId{6}, false);
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(live_in(4), kBandBlocks);
  EXPECT_EQ(state_of(6), data::BandState::kFree) << "it gives back the room that it takes";
  EXPECT_EQ(collector_.clean_all(), ok());
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(live_in(4), 0u);
}

// ---- damaged metadata ---------------------------------------------------------------------------

// Of each of eight bands the first block and the last one are live. In the first four bands the
// last one belongs to kDamaged.
class DamagedFileTest : public CollectorTest {
 protected:
  DamagedFileTest() {
    for (std::uint32_t band = 0; band < 2 * kHalf; ++band) {
      write_band(kFile, band, band < kHalf ? kDamaged : kFile);
    }
  }
  void write_band(InodeNo file, std::uint32_t band, InodeNo last) {
    const std::uint64_t first_block = std::uint64_t{band} * kBandBlocks;
    files_.write(file, first_block, 1);
    files_.write(file, first_block + 1, kBandBlocks - 2);
    files_.write(last, first_block + kBandBlocks - 1, 1);
    for (std::uint64_t i = 1; i < kBandBlocks - 1; ++i) files_.remove(file, first_block + i);
  }
  // What holds after all was cleaned that can be.
  void expect_only_damaged_bands_remain() {
    for (std::uint32_t band = 0; band < kHalf; ++band) {
      EXPECT_EQ(bands_.view(BandId{band}).state, data::BandState::kBad);
      EXPECT_GT(live_in(band), 0u);
    }
    EXPECT_EQ(bands_.bad_bands().size(), kHalf);
    EXPECT_EQ(files_.mapped(), 4 * kHalf);
  }
  static constexpr std::uint32_t kHalf = 4;
};

TEST_F(DamagedFileTest, CleaningOnDemandCleansAllOtherBands) {
  files_.damaged.insert(kDamaged);
  EXPECT_EQ(collector_.clean_all(), ok());
  expect_only_damaged_bands_remain();
  EXPECT_EQ(collector_.counters().bands_cleaned, kHalf);
}

TEST_F(DamagedFileTest, AWriterThatFindsNoRoomGetsThatOfAnotherBand) {
  files_.damaged.insert(kDamaged);
  for (std::uint32_t i = 0; i < kHalf; ++i) {
    const std::uint64_t freed = collector_.counters().bands_reset;
    EXPECT_TRUE(collector_.make_room());
    EXPECT_EQ(collector_.counters().bands_reset, freed + 1);
  }
  EXPECT_FALSE(collector_.make_room());
  expect_only_damaged_bands_remain();
}

TEST_F(DamagedFileTest, BlocksLeaveTheFirstDamagedBandOnly) {
  files_.damaged.insert(kDamaged);
  EXPECT_EQ(collector_.clean_all(), ok());
  EXPECT_EQ(moved(), 1 + 2 * kHalf) << "to move others would use up the reserve and free no band";
}

TEST_F(DamagedFileTest, ABandWhoseBlocksCannotBeRemappedCostsAUnitOfLostBlocks) {
  files_.remap_errors[kDamaged] = Errc::kNodeBad;
  EXPECT_EQ(collector_.clean_all(), ok());
  expect_only_damaged_bands_remain();
  EXPECT_EQ(moved(), 4 * kHalf + 3 * kHalf) << "the band that took the lost ones is cleaned too";
}

TEST_F(DamagedFileTest, AFullLogSetsNoBandAside) {
  files_.remap_errors[kDamaged] = Errc::kLogFull;
  EXPECT_EQ(collector_.clean_all(), fail(Errc::kLogFull));
  EXPECT_EQ(bands_.bad_bands().size(), 0u);
  files_.remap_errors.clear();
  EXPECT_EQ(collector_.clean_all(), ok());
  EXPECT_EQ(files_.mapped(), 4 * kHalf);
  for (std::uint32_t band = 0; band < 2 * kHalf; ++band) EXPECT_EQ(live_in(band), 0u);
}

TEST_F(DamagedFileTest, OtherDataOfAFailedBandIsMoved) {
  files_.damaged.insert(kDamaged);
  bands_.set_bad(BandId{0}, false);
  bands_.note_unreadable(BandId{1});
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(live_in(0), 1u);
  EXPECT_EQ(live_in(1), 1u);
}

TEST_F(DamagedFileTest, BandsAreUsedAgainWhenTheirMetadataCanBeReadAgain) {
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  files_.damaged.insert(kDamaged);
  EXPECT_EQ(collector_.clean_all(), ok());
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  expect_only_damaged_bands_remain();
  clock_.time += std::chrono::minutes(1);
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  expect_only_damaged_bands_remain();
  files_.damaged.clear();
  clock_.time += std::chrono::minutes(1);
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  expect_only_damaged_bands_remain();
  clock_.time += std::chrono::minutes(1);
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(bands_.bad_bands().size(), 0u);
  EXPECT_EQ(files_.mapped(), 4 * kHalf);
}

TEST_F(DamagedFileTest, ATailThatCannotBeExaminedLeavesItsBandToWholeCleaning) {
  collector_.set_mode(CleanMode::kTail);
  files_.damaged.insert(kDamaged);
  EXPECT_EQ(collector_.clean_all(), ok());
  expect_only_damaged_bands_remain();
}

TEST_F(DamagedFileTest, ATailThatCannotBeCutLeavesItsBandToWholeCleaning) {
  collector_.set_mode(CleanMode::kTail);
  files_.log_tail_error = Errc::kNodeBad;
  EXPECT_EQ(collector_.clean_all(), ok());
  for (std::uint32_t band = 0; band < 2 * kHalf; ++band) EXPECT_EQ(live_in(band), 0u);
}

// The bands are written again, and have other logs then.
TEST_F(DamagedFileTest, TailsAreCutAgainOnceTheirBandsWereReset) {
  collector_.set_mode(CleanMode::kTail);
  files_.log_tail_error = Errc::kNodeBad;
  ASSERT_EQ(collector_.clean_all(), ok());
  ASSERT_EQ(collector_.counters().tails_cleaned, 0u);
  files_.log_tail_error.reset();
  constexpr InodeNo kOther{9};
  for (std::uint32_t band = 0; band < 2 * kHalf; ++band) write_band(kOther, band, kOther);
  for (std::uint32_t band = 0; band < 2 * kHalf; ++band) ASSERT_EQ(live_in(band), 2u);
  EXPECT_EQ(collector_.clean_all(), ok());
  EXPECT_GT(collector_.counters().tails_cleaned, kHalf);
}

// ---- failing calls ------------------------------------------------------------------------------

TEST_F(DamagedFileTest, ABandThatTheDeviceDoesNotCutIsSetAsideAndAnotherOneIsCleaned) {
  collector_.set_mode(CleanMode::kTail);
  faulty_.fail_nth(Call::kSetWritePointer, 1, {Errc::kDeviceWrite});
  EXPECT_TRUE(collector_.make_room());
  EXPECT_EQ(faulty_.faults(), 1u);
  EXPECT_EQ(bands_.bad_bands().size(), 1u);
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(bands_.bad_bands().size(), 0u);
  EXPECT_EQ(files_.mapped(), 4 * kHalf);
}

TEST_F(DamagedFileTest, ADeviceThatCutsNoBandHasItsBandsCleanedWhole) {
  collector_.set_mode(CleanMode::kTail);
  faulty_.fail_when([](const CallInfo& info) -> std::optional<Fault> {
    if (info.call != Call::kSetWritePointer) return std::nullopt;
    return Fault{Errc::kDeviceWrite};
  });
  EXPECT_EQ(collector_.clean_all(), ok());
  EXPECT_EQ(bands_.bad_bands().size(), 3u);
  EXPECT_EQ(collector_.counters().bands_cleaned, 2 * kHalf - 3);
}

}  // namespace
}  // namespace lazyfs::gc
