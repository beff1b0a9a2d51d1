// The collector on devices without write pointers: a band is free after every crash (C3).
#include "gc/collector.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "collector_fixture.h"

namespace lazyfs::gc {
namespace {

// The device aborts when a block is written twice between two resets of its band.
class CollectorWithoutPointersTest : public CollectorTest {
 protected:
  CollectorWithoutPointersTest() : CollectorTest({.keeps_write_pointers = false}) {}
  void leave_one_free_band() {
    while (bands_.take_for_log()) {
    }
    ASSERT_EQ(bands_.space().free_bands, 1u);
  }
  // As many bands are free after each unit as a crash must leave.
  void clean_with_one_free_band() {
    leave_one_free_band();
    for (auto more = collector_.clean_unit({}); more && *more; more = collector_.clean_unit({})) {
      ASSERT_GE(bands_.space().free_bands, 1u);
      while (bands_.take_for_log()) {
      }
    }
    EXPECT_TRUE(files_.is_sound());
  }
};

TEST_F(CollectorWithoutPointersTest, TheLastFreeBandIsBegunOnlyForAllThatIsLiveInOne) {
  for (std::uint64_t i = 0; i < kFileBlocks; i += 4) files_.write(kFile, i, 4);
  for (std::uint64_t i = 0; i < kFileBlocks; i += 2) files_.remove(kFile, i);
  leave_one_free_band();
  std::optional<std::uint64_t> moved_at_first_remap;
  files_.before_remap = [&] {
    if (!moved_at_first_remap) moved_at_first_remap = moved();
  };
  ASSERT_TRUE(collector_.clean_unit({}));
  EXPECT_EQ(moved_at_first_remap, kBandBlocks / 2);
  EXPECT_EQ(bands_.space().free_bands, 1u) << "the band that was rescued is reset";
  // What is left of the new band is filled as always.
  moved_at_first_remap.reset();
  ASSERT_TRUE(collector_.clean_unit({}));
  EXPECT_LT(moved_at_first_remap, kBandBlocks / 2 + kBandBlocks / 4);
  ASSERT_TRUE(collector_.clean_all());
  EXPECT_EQ(bands_.space().dead, 0u);
}

// Units end where the collector's band ends, though the copies of one would not fit.
TEST_F(CollectorWithoutPointersTest, AUnitThatDoesNotFitBeginsNotTheLastFreeBand) {
  for (std::uint64_t i = 0; i < kFileBlocks; i += 4) files_.write(kFile, i, 4);
  for (std::uint64_t i = 0; i < kFileBlocks; i += 3) files_.remove(kFile, i);
  files_.remove(kFile, 1);
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(collector_.clean_unit({}));
  clean_with_one_free_band();
}

// One half of the collector's open band holds old data; eight bands are full.
class OldOpenBandTest : public CollectorWithoutPointersTest {
 protected:
  OldOpenBandTest() {
    files_.write(InodeNo{4}, 0, kBandBlocks / 2, data::Stream::kCollectorOld);
    for (std::uint64_t i = 0; i < kFileBlocks; i += 4) files_.write(kFile, i, 4);
  }
};

TEST_F(OldOpenBandTest, YoungDataGoesThereBeforeItBeginsTheLastFreeBand) {
  for (std::uint64_t i = 0; i < kFileBlocks; i += 2) files_.remove(kFile, i);
  clean_with_one_free_band();
  EXPECT_EQ(live_in(0), kBandBlocks);
  EXPECT_EQ(bands_.space().dead, 0u);
}

TEST_F(OldOpenBandTest, TheLastFreeBandIsNotBegunInsteadOfOneThatFails) {
  for (std::uint64_t i = 0; i < kFileBlocks; i += 2) files_.remove(kFile, i);
  faulty_.break_band(BandId{0});
  clean_with_one_free_band();
  EXPECT_EQ(bands_.view(BandId{0}).state, data::BandState::kBad);
  EXPECT_EQ(bands_.space().dead, 0u);
}

TEST_F(OldOpenBandTest, ABadBandIsMovedAsFarAsThereIsRoomBesidesTheLastFreeBand) {
  for (std::uint64_t i = 2 * kBandBlocks; i < kFileBlocks; i += 2) files_.remove(kFile, i);
  leave_one_free_band();
  bands_.set_bad(BandId{1}, false);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
    EXPECT_EQ(live_in(1), kBandBlocks / 2);
    EXPECT_EQ(bands_.space().free_bands, 1u);
  }
  EXPECT_EQ(collector_.clean_all(), ok());
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(bands_.view(BandId{1}).state, data::BandState::kFree);
}

TEST_F(CollectorWithoutPointersTest, AnOpenBandOfUsersIsRescuedToo) {
  for (std::uint64_t i = 0; i < kBandBlocks / 2; i += 4) files_.write(kFile, i, 4);
  for (std::uint64_t i = 0; i < kBandBlocks / 2; i += 2) files_.remove(kFile, i);
  for (std::uint32_t i = 1; i + 1 < kBands; ++i) bands_.set_bad(BandId{i});
  ASSERT_EQ(bands_.space().free_bands, 1u);
  std::optional<std::uint64_t> moved_at_first_remap;
  files_.before_remap = [&] {
    if (!moved_at_first_remap) moved_at_first_remap = moved();
  };
  EXPECT_TRUE(collector_.make_room());
  EXPECT_EQ(moved_at_first_remap, kBandBlocks / 4);
  EXPECT_EQ(bands_.space().free_bands, 1u);
}

TEST_F(CollectorWithoutPointersTest, AnOpenBandThatCannotBeReadIsSetAside) {
  for (std::uint64_t i = 0; i < kBandBlocks / 2; i += 4) files_.write(kFile, i, 4);
  for (std::uint64_t i = 0; i < kBandBlocks / 2; i += 2) files_.remove(kFile, i);
  for (std::uint32_t i = 1; i + 1 < kBands; ++i) bands_.set_bad(BandId{i});
  break_block({BandId{0}, 1});
  EXPECT_FALSE(collector_.make_room());
  EXPECT_EQ(bands_.view(BandId{0}).state, data::BandState::kBad);
  EXPECT_EQ(bands_.space().free_bands, 1u);
}

TEST_F(CollectorWithoutPointersTest, ABandWhoseCleaningARescueInterruptsIsCleanedLater) {
  for (std::uint64_t i = 0; i < kFileBlocks; i += 4) files_.write(kFile, i, 4);
  for (std::uint64_t i = 0; i < kFileBlocks; ++i) {
    if (i % 16 < 4) files_.remove(kFile, i);
  }
  faulty_.fail_when([](const CallInfo& info) -> std::optional<Fault> {
    const bool is_hit = info.call == Call::kRead && info.at.band == BandId{1} && info.at.rba < 8 &&
                        info.at.rba + info.blocks > 4;
    return is_hit ? std::optional(Fault{Errc::kDeviceRead}) : std::nullopt;
  });
  for (int i = 0; i < 14; ++i) ASSERT_TRUE(collector_.clean_unit({}));
  leave_one_free_band();
  for (auto more = collector_.clean_unit({}); more && *more; more = collector_.clean_unit({})) {
  }
  clock_.time += std::chrono::hours(2);
  ASSERT_TRUE(collector_.evacuate_failed_bands());
  ASSERT_TRUE(collector_.clean_all());
  EXPECT_EQ(live_in(1), 4u);
  EXPECT_EQ(bands_.view(BandId{1}).state, data::BandState::kBad);
}

TEST_F(CollectorWithoutPointersTest, ARescuePassesOverDamagedBands) {
  files_.write(kDamaged, 0, kBandBlocks);
  for (std::uint64_t i = 1; i < kBandBlocks; ++i) files_.remove(kDamaged, i);
  make_holes(2);
  leave_one_free_band();
  files_.damaged.insert(kDamaged);
  ASSERT_TRUE(collector_.clean_unit({}));
  EXPECT_EQ(moved(), kBandBlocks / 2);
  EXPECT_EQ(live_in(0), 1u);
  EXPECT_EQ(bands_.space().free_bands, 1u);
}

TEST_F(CollectorWithoutPointersTest, ARescuePassesOverUnreadableBands) {
  for (std::uint64_t i = 0; i < kFileBlocks; i += 4) files_.write(kFile, i, 4);
  for (std::uint64_t i = 0; i < kFileBlocks; i += 2) files_.remove(kFile, i);
  for (std::uint64_t i = 3; i < kBandBlocks; i += 4) files_.remove(kFile, i);
  break_block({BandId{0}, kBandBlocks - 3});
  leave_one_free_band();
  EXPECT_EQ(collector_.clean_unit({}), true);
  EXPECT_EQ(bands_.space().free_bands, 1u);
  EXPECT_EQ(moved(), kBandBlocks / 2);
  EXPECT_EQ(bands_.view(BandId{0}).state, data::BandState::kBad);
  EXPECT_EQ(live_in(0), kBandBlocks / 4);
  EXPECT_EQ(collector_.clean_all(), ok());
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(live_in(0), 1u);
}

// After its first unit the collector's open band is full.
TEST_F(CollectorWithoutPointersTest, AnUnreadableBandThatIsBeingCleanedTakesNotTheLastFreeBand) {
  files_.write(InodeNo{4}, 0, kBandBlocks - 3, data::Stream::kCollectorOld);
  for (std::uint64_t i = 0; i < kBandBlocks; i += 4) files_.write(kFile, i, 4);
  for (std::uint64_t i = 0; i < kBandBlocks; i += 2) files_.remove(kFile, i);
  break_block({BandId{1}, 1});
  for (std::uint32_t i = 2; i + 1 < kBands; ++i) bands_.set_bad(BandId{i});
  EXPECT_EQ(collector_.clean_unit({}), true);
  ASSERT_TRUE(collector_.is_cleaning());
  EXPECT_EQ(live_in(0), kBandBlocks);
  EXPECT_EQ(collector_.clean_unit({}), true);
  EXPECT_EQ(bands_.view(BandId{1}).state, data::BandState::kBad);
  EXPECT_EQ(bands_.space().free_bands, 1u);
}

// Band 0 has eight blocks, the others have four.
class ShortLastBandTest : public CollectorTest {
 protected:
  static constexpr std::uint32_t kShortBlocks = 4;

  ShortLastBandTest() : CollectorTest(device()) {}
  static std::unique_ptr<device::MemoryDevice> device() {
    device::Geometry geometry;
    geometry.band_blocks.assign(kBands, kShortBlocks);
    geometry.band_blocks[0] = 2 * kShortBlocks;
    geometry.band_kinds.assign(kBands, device::BandKind::kShingled);
    return std::make_unique<device::MemoryDevice>(
        geometry, device::Capabilities{.keeps_write_pointers = false});
  }
};

TEST_F(ShortLastBandTest, ARescueMayFillTheLastFreeBand) {
  for (std::uint64_t i = 0; i < 2 * kShortBlocks; ++i) {
    files_.write(kFile, i, 1, data::Stream::kCollector);
  }
  ASSERT_EQ(live_in(0), 2 * kShortBlocks);
  for (std::uint64_t i = 0; i < kShortBlocks; ++i) files_.remove(kFile, 2 * i);
  for (std::uint32_t i = 1; i + 1 < kBands; ++i) bands_.set_bad(BandId{i});
  std::optional<std::uint64_t> moved_at_first_remap;
  files_.before_remap = [&] {
    if (!moved_at_first_remap) moved_at_first_remap = moved();
  };
  ASSERT_EQ(collector_.clean_unit({}), true);
  EXPECT_EQ(moved_at_first_remap, kShortBlocks);
  EXPECT_EQ(bands_.space().free_bands, 1u);
}

TEST_F(CollectorWithoutPointersTest, ARescueTakesTheBandWithTheFewestLiveBlocks) {
  make_holes(4);
  for (std::uint64_t i = 0; i < kBandBlocks - 3; ++i) files_.remove(kFile, 3 * kBandBlocks + i);
  leave_one_free_band();
  ASSERT_TRUE(collector_.clean_unit({}));
  EXPECT_EQ(moved(), 3u);
  EXPECT_EQ(bands_.space().free_bands, 1u);
}

}  // namespace
}  // namespace lazyfs::gc
