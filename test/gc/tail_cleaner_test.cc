// Which end of a band is cleaned.
#include "gc/tail_cleaner.h"

#include <gtest/gtest.h>

#include <optional>

#include "collector_fixture.h"

namespace lazyfs::gc {
namespace {

// The file's blocks lie one after the other in the bands from 0 on, four to an append record.
class TailCleanerTest : public CollectorTest {
 protected:
  static constexpr std::uint32_t kRecord = 4, kRecords = kBandBlocks / kRecord;

  TailCleanerTest() = default;
  explicit TailCleanerTest(std::unique_ptr<device::MemoryDevice> device)
      : CollectorTest(std::move(device)) {}

  void fill(std::uint32_t records) {
    for (std::uint32_t i = 0; i < records; ++i) files_.write(kFile, i * kRecord, kRecord);
  }
  // The record dies.
  void kill(std::uint32_t band, std::uint32_t record) {
    for (std::uint32_t i = 0; i < kRecord; ++i) {
      files_.remove(kFile, band * kBandBlocks + record * kRecord + i);
    }
  }
  std::optional<BandId> picked(const std::optional<BandUse>& whole = std::nullopt,
                               VictimScope scope = {}) {
    const auto tail = cleaner_.pick(whole, scope);
    return tail ? std::optional(tail->use.band) : std::nullopt;
  }

  Counters counters_;
  BandMover mover_{files_, faulty_, bands_, appender_, counters_};
  TailCleaner cleaner_{files_, faulty_, bands_, mover_, CleanMode::kTail, counters_};
};

TEST_F(TailCleanerTest, ATailBeginsWithTheBandsLastHole) {
  fill(kRecords);
  for (const std::uint32_t record : {3, 10, 11}) kill(0, record);
  const auto tail = cleaner_.pick(std::nullopt, {});
  ASSERT_TRUE(tail);
  EXPECT_EQ(tail->start, 10 * kRecord);
  EXPECT_EQ(tail->end, kBandBlocks);
  EXPECT_EQ(tail->use.hole_blocks, 2 * kRecord);
  EXPECT_EQ(tail->use.tail_blocks, 4 * kRecord);
  EXPECT_EQ(cleaner_.clean(*tail), true);
  EXPECT_EQ(bands_.view(BandId{0}).counters.appended, 10 * kRecord);
  EXPECT_EQ(bands_.view(BandId{0}).state, data::BandState::kOpen);
  EXPECT_EQ(counters_.blocks_moved, 4 * kRecord);
}

TEST_F(TailCleanerTest, AHoleAtTheStartOfTheBandIsNone) {
  fill(kRecords);
  kill(0, 0);
  EXPECT_EQ(picked(), std::nullopt);
  kill(0, 2);
  EXPECT_EQ(picked(), BandId{0});
}

TEST_F(TailCleanerTest, TheTailThatPaysMostIsPickedOfTheFourBandsWithTheMostDeadBlocks) {
  fill(6 * kRecords);
  for (std::uint32_t band = 0; band < 4; ++band) {
    kill(band, 2);
    kill(band, band == 3 ? 8 : 4);  // the hole of band 3 is nearer to its end
  }
  kill(4, kRecords - 1);  // nothing would be moved
  EXPECT_EQ(picked(), BandId{3});
  for (const std::uint32_t record : {4, 5, 6}) kill(4, record);
  EXPECT_EQ(picked(), BandId{4});
}

TEST_F(TailCleanerTest, AHoleInFewerBlocksThanTheScopeNamesIsLeft) {
  fill(kRecords);
  kill(0, kRecords - 3);  // a third of the blocks up to the write pointer
  EXPECT_EQ(picked({}, {.least_dead_percent = 34}), std::nullopt);
  EXPECT_EQ(picked({}, {.least_dead_percent = 33}), BandId{0});
}

TEST_F(TailCleanerTest, ATailThatGainsLittleIsLeft) {
  for (std::uint32_t i = 0; i < kBandBlocks; ++i) files_.write(kFile, i, 1);
  for (std::uint32_t i = 1; i < kBandBlocks / 16; ++i) {
    files_.remove(kFile, kBandBlocks - i);
    EXPECT_EQ(picked(), std::nullopt);
  }
  files_.remove(kFile, kBandBlocks - kBandBlocks / 16);
  EXPECT_EQ(picked(), BandId{0});
}

TEST_F(TailCleanerTest, AWholeBandThatPaysMoreIsOfNoConcernIfOnlyTailsAreCleaned) {
  fill(kRecords + kRecords / 2);
  kill(0, 5);
  const BandUse better{BandId{7}, kBandBlocks, 1, 0};
  EXPECT_EQ(picked(better), BandId{0});
}

TEST_F(TailCleanerTest, InModeAutoAnOpenBandIsCutIfThatPaysMoreThanAWholeBand) {
  cleaner_.set_mode(CleanMode::kAuto);
  fill(kRecords + kRecords / 2);
  kill(0, kRecords - 2);
  EXPECT_EQ(picked(), std::nullopt) << "the band is full";
  kill(1, 2);
  EXPECT_EQ(picked(), BandId{1});
  EXPECT_EQ(picked(BandUse{BandId{7}, kBandBlocks, kBandBlocks - 1, 0}), BandId{1});
  EXPECT_EQ(picked(BandUse{BandId{7}, kBandBlocks, 1, 0}), std::nullopt);
}

TEST_F(TailCleanerTest, NoFullBandIsCutWhileEightBandsAreOpen) {
  fill(kRecords);
  kill(0, kRecords - 2);
  const auto open = [this](std::uint32_t band) {
    bands_.restore(BandId{band}, {.appended = 1, .live = 1, .append_records = 1});
  };
  for (std::uint32_t band = 20; band < 27; ++band) open(band);
  EXPECT_EQ(picked(), BandId{0});
  open(27);
  EXPECT_EQ(picked(), std::nullopt);
}

TEST_F(TailCleanerTest, NothingIsCutWhileTheReserveIsIncomplete) {
  fill((kBands - 3) * kRecords);
  kill(0, kRecords - 2);
  EXPECT_EQ(picked(), BandId{0});
  files_.write(InodeNo{9}, 0, 1, data::Stream::kCollector);
  EXPECT_EQ(picked(), std::nullopt);
}

TEST_F(TailCleanerTest, ATailIsLeftIfItsBandWasAppendedToMeanwhile) {
  fill(kRecords / 2);
  kill(0, 5);
  const auto tail = cleaner_.pick(std::nullopt, {});
  ASSERT_TRUE(tail);
  files_.write(kFile, kBandBlocks / 2, kRecord);
  EXPECT_EQ(cleaner_.clean(*tail), false);
  EXPECT_EQ(counters_.blocks_moved, 0u);
}

// Otherwise the block would be cut off and lost.
TEST_F(TailCleanerTest, NothingIsCutIfABlockIsMeanwhileAnotherOwners) {
  fill(kRecords);
  kill(0, 10);
  const auto tail = cleaner_.pick(std::nullopt, {});
  ASSERT_TRUE(tail);
  files_.before_remap = [this] {
    files_.before_remap = [] {};
    files_.give(kFile, kBandBlocks - 1, kDamaged);
  };
  EXPECT_EQ(cleaner_.clean(*tail), false);
  EXPECT_EQ(live_in(0), 10 * kRecord + 1);
  EXPECT_EQ(bands_.view(BandId{0}).counters.appended, kBandBlocks);
}

TEST_F(TailCleanerTest, AfterThreeCutsThatFailBandsAreCleanedAsAWhole) {
  fill(6 * kRecords);
  faulty_.fail_when([](const CallInfo& info) -> std::optional<Fault> {
    const bool fails = info.call == Call::kSetWritePointer;
    return fails ? std::optional(Fault{Errc::kDeviceWrite}) : std::nullopt;
  });
  for (std::uint32_t band = 0; band < 5; ++band) kill(band, kRecords - 2);
  for (int i = 0; i < 3; ++i) {
    const auto tail = cleaner_.pick(std::nullopt, {});
    ASSERT_TRUE(tail) << i;
    EXPECT_EQ(cleaner_.clean(*tail), false);
  }
  EXPECT_EQ(picked(), std::nullopt);
}

// Bands of 16 MiB: how much is moved and looked at for one cut has limits.
class LongTailTest : public TailCleanerTest {
 protected:
  static constexpr std::uint32_t kLongBlocks = 4096, kHole = 512;

  LongTailTest()
      : TailCleanerTest(
            device::MemoryDevice::uniform(8, kLongBlocks, {.set_write_pointer = true})) {}
  // A live start, a hole, and `tail` live blocks in `records` append records.
  void fill_band(std::uint32_t tail, std::uint32_t records) {
    files_.write(kFile, 0, kLongBlocks - kHole - tail);
    files_.write(kDamaged, 0, kHole);
    for (std::uint32_t i = 1; i < records; ++i) files_.write(kFile, 10000 + i, 1);
    files_.write(kFile, 20000, tail - (records - 1));
    for (std::uint32_t i = 0; i < kHole; ++i) files_.remove(kDamaged, i);
  }
};

TEST_F(LongTailTest, ATailOfOneUnitOfWorkIsCleaned) {
  fill_band(2048, 1);
  EXPECT_EQ(picked(), BandId{0});
}

TEST_F(LongTailTest, ALongerTailIsNot) {
  fill_band(2049, 1);
  EXPECT_EQ(picked(), std::nullopt);
}

TEST_F(LongTailTest, AHoleIsFoundWithin64AppendRecords) {
  fill_band(100, 63);
  EXPECT_EQ(picked(), BandId{0});
}

TEST_F(LongTailTest, AHoleFurtherFromTheEndIsNot) {
  fill_band(100, 64);
  EXPECT_EQ(picked(), std::nullopt);
}

TEST_F(LongTailTest, ABandWithoutLiveBlocksIsLeftToBeReset) {
  for (std::uint32_t i = 0; i < kLongBlocks; i += 32) files_.write(kFile, i, 32);
  for (std::uint32_t i = 0; i < kLongBlocks; ++i) files_.remove(kFile, i);
  EXPECT_EQ(picked(), std::nullopt);
}

}  // namespace
}  // namespace lazyfs::gc
