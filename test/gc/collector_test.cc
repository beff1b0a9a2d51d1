// The collector without a filesystem: a few files in memory implement its port.
#include "gc/collector.h"

#include <gtest/gtest.h>

#include <optional>

#include "device/faulty.h"
#include "device/memory.h"
#include "fake_files.h"

namespace lazyfs::gc {
namespace {

class CollectorTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBands = 32, kBandBlocks = 64;
  static constexpr InodeNo kFile{2};
  static constexpr std::uint64_t kFileBlocks = 8 * kBandBlocks;

  explicit CollectorTest(device::Capabilities capabilities = {.set_write_pointer = true})
      : device_(device::MemoryDevice::uniform(kBands, kBandBlocks, capabilities)) {}
  ~CollectorTest() override {
    EXPECT_EQ(bands_.check_invariants(), "");
    EXPECT_TRUE(files_.is_sound());
  }
  // One block of `each` of a file of eight bands is removed.
  void make_holes(std::uint64_t each) {
    files_.write(kFile, 0, kFileBlocks);
    for (std::uint64_t i = 0; i < kFileBlocks; i += each) files_.remove(kFile, i);
  }
  std::uint64_t moved() const { return collector_.counters().blocks_moved; }

  const std::unique_ptr<device::MemoryDevice> device_;
  device::FaultyDevice faulty_{*device_};
  data::BandTable bands_{device_->geometry(), {}, {}};
  data::Appender appender_{faulty_, bands_, data::Placement::kFirstFit, [] { return 0u; }};
  FakeFiles files_{bands_, appender_};
  Collector collector_{files_, faulty_, bands_, appender_, system_clock(), CleanMode::kWhole};
};

TEST_F(CollectorTest, CleaningMovesLiveBlocksAndResetsTheBand) {
  make_holes(2);
  ASSERT_TRUE(collector_.clean_all());
  EXPECT_EQ(files_.mapped(), kFileBlocks / 2);
  EXPECT_EQ(moved(), kFileBlocks / 2);
  EXPECT_EQ(bands_.space().dead, 0u);
  EXPECT_GE(collector_.counters().bands_reset, 8u);
}

TEST_F(CollectorTest, DataOfAFailedBandIsMovedAlthoughOtherBandsFailToo) {
  files_.write(kFile, 0, kFileBlocks);
  bands_.set_bad(BandId{0}, false);
  for (std::uint32_t i = 0; i + 1 < data::kMaxFailedBands; ++i) faulty_.break_band(BandId{8 + i});
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(bands_.view(BandId{0}).counters.live, 0u);
  EXPECT_EQ(files_.mapped(), kFileBlocks);
}

TEST_F(CollectorTest, MovingGivesUpWhenEveryBandFails) {
  files_.write(kFile, 0, kFileBlocks);
  bands_.set_bad(BandId{0}, false);
  for (std::uint32_t i = 8; i < kBands; ++i) faulty_.break_band(BandId{i});
  EXPECT_EQ(collector_.evacuate_failed_bands(), fail(Errc::kDeviceWrite));
  EXPECT_EQ(bands_.view(BandId{0}).counters.live, kBandBlocks);
  EXPECT_EQ(files_.mapped(), kFileBlocks);
}

TEST_F(CollectorTest, BandIsResetOnlyAfterACommit) {
  files_.write(kFile, 0, kBandBlocks);
  for (std::uint64_t i = 0; i < kBandBlocks; ++i) files_.remove(kFile, i);
  ASSERT_TRUE(collector_.reset_empty_bands());
  EXPECT_EQ(files_.commits, 1u);
  EXPECT_EQ(collector_.counters().bands_reset, 1u);
  ASSERT_TRUE(collector_.reset_empty_bands());
  EXPECT_EQ(files_.commits, 1u);  // nothing to do
}

TEST_F(CollectorTest, BlocksThatAreOverwrittenMeanwhileKeepTheirNewPlace) {
  make_holes(2);
  files_.before_remap = [this] {
    files_.before_remap = [] {};
    files_.write(kFile, 0, kFileBlocks / 2);
  };
  ASSERT_TRUE(collector_.clean_unit({}));
  EXPECT_EQ(files_.mapped(), kFileBlocks / 2 + kFileBlocks / 4);
}

TEST_F(CollectorTest, CleaningOnDemandLeavesBandsThatAreNearlyLive) {
  make_holes(16);
  ASSERT_TRUE(collector_.clean_all());
  EXPECT_EQ(moved(), 0u);
}

TEST_F(CollectorTest, WriterThatFindsNoRoomGetsWhatNearlyLiveBandsHold) {
  make_holes(16);
  EXPECT_TRUE(collector_.make_room());
  EXPECT_EQ(collector_.counters().bands_waited_for, 1u);
}

// A writer that is as fast as the collector: whenever a block is moved, others die.
TEST_F(CollectorTest, CleaningOnDemandEndsHoweverFastOthersWrite) {
  make_holes(4);
  std::uint64_t next = 0, writes = 0;
  files_.before_remap = [&] {
    if (++writes > 100 * kFileBlocks) return;  // a collector that does not end fails below
    files_.write(kFile, next++ % kFileBlocks, 1);
  };
  ASSERT_TRUE(collector_.clean_all());
  EXPECT_LE(collector_.counters().bands_cleaned, 9u);
}

TEST_F(CollectorTest, WritersHelpOnlyUnderSpacePressure) {
  make_holes(2);
  collector_.help(kBandBlocks);
  EXPECT_EQ(moved(), 0u);
  const std::uint64_t room = bands_.user_room().blocks;
  files_.write(InodeNo{3}, 0, static_cast<std::uint32_t>(room - 2 * kBandBlocks));
  collector_.help(kBandBlocks);
  EXPECT_GT(moved(), 0u);
}

// The device aborts when a block is written twice between two resets of its band.
class CollectorWithoutPointersTest : public CollectorTest {
 protected:
  CollectorWithoutPointersTest() : CollectorTest({.keeps_write_pointers = false}) {}
  void leave_one_free_band() {
    while (bands_.take_for_log()) {
    }
    ASSERT_EQ(bands_.space().free_bands, 1u);
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
