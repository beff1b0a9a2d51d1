// Cleaning, and bands that fail.
#include "gc/collector.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <vector>

#include "collector_fixture.h"

namespace lazyfs::gc {
namespace {

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

TEST_F(CollectorTest, BandsWithUnreadableBlocksAreMovedOnceAppendsSucceedAgain) {
  files_.write(kFile, 0, kFileBlocks);
  bands_.note_unreadable(BandId{0});
  bands_.note_unreadable(BandId{1});
  break_block({BandId{0}, 0});
  evacuate_at_second_attempt();
  EXPECT_EQ(live_in(0), 1u);
  EXPECT_EQ(bands_.view(BandId{0}).state, data::BandState::kBad);
  EXPECT_EQ(live_in(1), 0u) << "it was not reached the first time";
}

TEST_F(CollectorTest, ABandThatIsAlreadySetAsideIsMovedOnceAppendsSucceedAgain) {
  files_.write(kFile, 0, kFileBlocks);
  bands_.set_bad(BandId{0}, false);
  break_block({BandId{0}, 0});
  evacuate_at_second_attempt();
  EXPECT_EQ(live_in(0), 1u);
}

TEST_F(CollectorTest, ABandThatIsAppendedToIsMovedLater) {
  files_.write(kFile, 0, kBandBlocks / 2);
  bands_.note_unreadable(BandId{0});
  {
    const auto lease = appender_.lease(data::Stream::kSmall, 1, true);
    ASSERT_TRUE(lease);
    ASSERT_EQ(lease->band(), BandId{0});
    EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  }
  EXPECT_EQ(live_in(0), kBandBlocks / 2);
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(live_in(0), 0u);
}

TEST_F(CollectorTest, CleaningThatFailsLeavesABandWithUnreadableBlocksToBeMovedLater) {
  make_holes(2);
  break_block({BandId{0}, 1});
  appends_fail_ = true;
  EXPECT_EQ(collector_.clean_unit({}), fail(Errc::kDeviceWrite));
  appends_fail_ = false;
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(live_in(0), 1u);
  EXPECT_EQ(bands_.view(BandId{0}).state, data::BandState::kBad);
}

// Meanwhile the band was moved out of, set aside, reset, and begun by a writer.
TEST_F(CollectorTest, CleaningDoesNotGoOnInABandThatWasSetAside) {
  for (std::uint64_t i = 0; i < kFileBlocks; i += 4) files_.write(kFile, i, 4);
  for (std::uint64_t i = 0; i < 8; ++i) files_.remove(kFile, i);
  break_block({BandId{0}, 40});
  ASSERT_TRUE(collector_.clean_unit({}));
  ASSERT_TRUE(collector_.is_cleaning());
  bands_.note_unreadable(BandId{0});
  ASSERT_TRUE(collector_.evacuate_failed_bands());
  for (std::uint64_t i = 40; i < 44; ++i) files_.remove(kFile, i);
  ASSERT_TRUE(collector_.evacuate_failed_bands());
  ASSERT_EQ(bands_.view(BandId{0}).state, data::BandState::kFree);
  EXPECT_FALSE(collector_.is_cleaning());
  for (std::uint64_t i = 0; i < 48; i += 4) files_.write(InodeNo{9}, i, 4);
  const auto lease = appender_.lease(data::Stream::kSmall, 4, true);
  ASSERT_EQ(lease->band(), BandId{0});
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(collector_.clean_unit({}));
  EXPECT_EQ(bands_.view(BandId{0}).state, data::BandState::kOpen);
}

TEST_F(CollectorTest, PausesBetweenMovesThatFailGrow) {
  files_.write(kFile, 0, kBandBlocks);
  bands_.note_unreadable(BandId{0});
  break_block({BandId{0}, 0});
  appends_fail_ = true;
  const std::vector<int> expected{0, 1, 3, 7, 15, 31, 61, 91};  // seconds
  std::vector<int> tried;
  for (int second = 0; second < 100; ++second) {
    if (!collector_.evacuate_failed_bands()) tried.push_back(second);
    clock_.time += std::chrono::seconds(1);
  }
  EXPECT_EQ(tried, expected);
}

// While the device fails as a whole, every change of a band fails.
class FailingDeviceTest : public CollectorTest {
 protected:
  FailingDeviceTest() {
    faulty_.fail_when([this](const CallInfo& info) -> std::optional<Fault> {
      const bool is_change = info.call == Call::kAppend || info.call == Call::kReset;
      const bool fails = fails_ || info.at.band == bad_;
      return is_change && fails ? std::optional(Fault{Errc::kDeviceWrite}) : std::nullopt;
    });
  }
  // A writer tries, and the housekeeper works, each once.
  bool try_to_write() {
    const auto is_written = [&] {
      auto lease = appender_.lease(data::Stream::kSmall, 1, true);
      if (!lease) return false;
      const std::vector<device::Piece> page(1, page_.span());
      if (!lease->append(page)) return false;
      files_.record_lost(*lease);
      return true;
    }();
    clock_.time += std::chrono::minutes(1);
    ignore_error(collector_.evacuate_failed_bands(), "tried again");
    return is_written;
  }
  bool is_given_up(std::uint32_t band) const { return bands_.view(BandId{band}).is_given_up; }

  AlignedBuffer page_ = AlignedBuffer(kBlockBytes);
  bool fails_ = false;
  std::optional<BandId> bad_;
};

TEST_F(FailingDeviceTest, NoBandIsLostWhenTheWholeDeviceFailsForAWhile) {
  files_.write(kFile, 0, kBandBlocks / 2);
  fails_ = true;
  for (std::uint32_t i = 0; i < 5 * kBands; ++i) EXPECT_FALSE(try_to_write());
  EXPECT_EQ(bands_.bad_bands().size(), kBands);
  fails_ = false;
  clock_.time += std::chrono::minutes(1);
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_TRUE(bands_.bad_bands().empty());
  EXPECT_TRUE(try_to_write());
  EXPECT_EQ(files_.mapped(), kBandBlocks / 2);
}

TEST_F(FailingDeviceTest, OneBadBandIsGivenUpWhileOthersWork) {
  bad_ = BandId{3};
  int failures = 0;
  for (std::uint32_t i = 0; i < 4 * kBandBlocks; ++i) failures += try_to_write() ? 0 : 1;
  EXPECT_EQ(failures, 1) << "the resets fail too";
  EXPECT_TRUE(is_given_up(3));
  EXPECT_EQ(bands_.bad_bands().size(), 1u);
}

// Otherwise the bad band would be reset again every second for as long as nobody writes.
TEST_F(FailingDeviceTest, PausesBetweenResetsGrowUntilItIsKnownWhoIsToBlame) {
  fails_ = true;
  EXPECT_FALSE(try_to_write());
  int resets = 0;
  faulty_.fail_when([&resets](const CallInfo& info) -> std::optional<Fault> {
    if (info.call != Call::kReset) return std::nullopt;
    ++resets;
    return Fault{Errc::kDeviceWrite};
  });
  for (int second = 0; second < 100; ++second) {
    EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
    clock_.time += std::chrono::seconds(1);
  }
  EXPECT_LE(resets, 2 * 8);
  EXPECT_FALSE(is_given_up(0));
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

// Rule 2, of a band whose data was moved out of it.
TEST_F(CollectorTest, FailedBandIsResetOnlyAfterACommit) {
  files_.write(kFile, 0, kBandBlocks);
  bands_.set_bad(BandId{0}, false);
  std::optional<std::size_t> commits_before_reset;
  faulty_.fail_when([&](const CallInfo& info) -> std::optional<Fault> {
    if (info.call == Call::kReset) commits_before_reset = files_.commits;
    return std::nullopt;
  });
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(commits_before_reset, 1u);
}

// Four bands are open for the metadata, which leaves one for the file.
class FewOpenBandsTest : public CollectorTest {
 protected:
  FewOpenBandsTest() : CollectorTest({.max_open_bands = 5}) {
    const AlignedBuffer block = AlignedBuffer::zeroed(kBlockBytes);
    for (std::uint32_t i = kBands - 4; i < kBands; ++i) {
      EXPECT_EQ(device_->append({BandId{i}, 0}, block.span()), ok());
    }
  }
};

TEST_F(FewOpenBandsTest, AWriterMayBeginABandDuringTheCommitThatResetsAnOpenOne) {
  files_.write(kFile, 0, 1);
  files_.remove(kFile, 0);
  files_.before_commit = [this] { files_.write(kFile, 0, 1); };
  ASSERT_TRUE(collector_.reset_empty_bands());
  EXPECT_EQ(device_->refused_begins(), 0u);
  EXPECT_EQ(collector_.counters().bands_reset, 1u);
  EXPECT_EQ(live_in(1), 1u);
}

// A band without live blocks, whose log cannot be erased.
class UnerasableLogTest : public CollectorTest {
 protected:
  UnerasableLogTest() {
    files_.write(kFile, 0, kBandBlocks);
    for (std::uint64_t i = 0; i < kBandBlocks; ++i) files_.remove(kFile, i);
    faulty_.fail_when([this](const CallInfo& info) -> std::optional<Fault> {
      if (info.call == Call::kReset) ++resets_;
      return std::nullopt;
    });
  }
  void reset_with(Errc error) {
    files_.erase_log_error = error;
    EXPECT_EQ(collector_.reset_empty_bands(), ok());
    EXPECT_EQ(bands_.bad_bands().size(), 1u);
  }
  int resets_ = 0;  // by the device
};

TEST_F(UnerasableLogTest, ABandIsNotGivenUpBecauseTheMetadataLogIsFull) {
  reset_with(Errc::kLogFull);
  const std::vector<int> expected{0, 1, 3, 7, 15, 31};  // seconds
  std::vector<int> tried;
  for (int second = 0; second < 60; ++second) {
    if (!collector_.evacuate_failed_bands()) tried.push_back(second);
    clock_.time += std::chrono::seconds(1);
  }
  EXPECT_EQ(tried, expected);
  EXPECT_EQ(bands_.bad_bands().size(), 1u);
  files_.erase_log_error.reset();
  clock_.time += std::chrono::seconds(1);
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_EQ(bands_.bad_bands().size(), 0u);
  EXPECT_EQ(resets_, 1) << "only the erasure of the log was repeated";
  EXPECT_EQ(files_.commits, 1u);
  EXPECT_EQ(collector_.counters().bands_reset, 1u);
}

TEST_F(UnerasableLogTest, ABandIsGivenUpAfterThreeOtherErrors) {
  reset_with(Errc::kBatchTooLarge);
  EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  EXPECT_TRUE(bands_.view(BandId{0}).is_given_up);
  EXPECT_EQ(resets_, 1);
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

// As after a crash on a disk with a limit of open bands. Nothing is dead.
TEST_F(CollectorTest, AWriterThatFindsNoRoomGetsTheRestOfBandsThatWereSealed) {
  files_.write(kFile, 0, 8);
  ASSERT_TRUE(bands_.seal(BandId{0}));
  const std::uint64_t room = bands_.space().unwritten;
  EXPECT_TRUE(collector_.make_room());
  EXPECT_EQ(bands_.space().unwritten, room + kBandBlocks - 8);
  EXPECT_EQ(moved(), 8u);
  EXPECT_FALSE(collector_.make_room());
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

TEST_F(CollectorTest, ABandThatIsAppendedToDoesNotStopTheCleaningOfAnotherOne) {
  files_.write(kFile, 0, kBandBlocks / 2);
  for (std::uint64_t i = 1; i < kBandBlocks / 2; ++i) files_.remove(kFile, i);
  const auto lease = appender_.lease(data::Stream::kSmall, 1, true);
  ASSERT_TRUE(lease);
  ASSERT_EQ(lease->band(), BandId{0});
  const InodeNo other{4};
  files_.write(other, 0, kBandBlocks / 2);
  for (std::uint64_t i = 2; i < kBandBlocks / 2; ++i) files_.remove(other, i);
  EXPECT_TRUE(collector_.make_room());
  EXPECT_EQ(live_in(0), 1u);
  EXPECT_EQ(live_in(1), 0u);
}

TEST_F(CollectorTest, WritersHelpOnlyUnderSpacePressure) {
  make_holes(2);
  collector_.help(kBandBlocks);
  EXPECT_EQ(moved(), 0u);
  const std::uint64_t room = bands_.user_room();
  files_.write(InodeNo{3}, 0, static_cast<std::uint32_t>(room - 2 * kBandBlocks));
  collector_.help(kBandBlocks);
  EXPECT_GT(moved(), 0u);
}

// Two bands are left to append to; a block is moved for each that is gained.
class WritersShareTest : public CollectorTest {
 protected:
  WritersShareTest() {
    for (std::uint64_t i = 0; i < kFileBlocks; ++i) files_.write(kFile, i, 1);
    for (std::uint64_t i = 0; i < kFileBlocks; i += 2) files_.remove(kFile, i);
    const std::uint64_t room = bands_.user_room();
    files_.write(InodeNo{9}, 0, static_cast<std::uint32_t>(room - 2 * kBandBlocks));
  }
};

TEST_F(WritersShareTest, AWriterMovesAsMuchAsItsBlocksCostAndMoreTheLessRoomIsLeft) {
  ASSERT_EQ(bands_.user_room(), 2 * kBandBlocks);
  collector_.help(8);
  EXPECT_EQ(moved(), 8u);
  ASSERT_EQ(bands_.user_room(), kBandBlocks) << "the collector has begun a band";
  collector_.help(8);
  EXPECT_EQ(moved(), 8u + 12u);
}

TEST_F(WritersShareTest, AWriterOfLittleLeavesTheUnitToTheNextOnes) {
  collector_.help(1);
  EXPECT_EQ(moved(), 4u) << "a unit";
  collector_.help(1);
  EXPECT_EQ(moved(), 4u) << "1 + 1.5 blocks are owed, and four moved";
  collector_.help(2);
  EXPECT_EQ(moved(), 8u);
}

TEST_F(WritersShareTest, WhatIsOwedForOneBandIsNotOwedForTheNext) {
  collector_.help(2 * kBandBlocks);
  EXPECT_EQ(moved(), kBandBlocks / 2) << "all of the first band";
  collector_.help(1);
  EXPECT_EQ(moved(), kBandBlocks / 2 + 4u) << "a unit";
}

TEST_F(WritersShareTest, LittleIsOwedWhileABandGainsMuch) {
  for (std::uint64_t i = 0; i < kFileBlocks; ++i) {
    if (i % 8 != 7) files_.remove(kFile, i);
  }
  ASSERT_EQ(bands_.user_room(), 2 * kBandBlocks);
  collector_.help(16);
  EXPECT_EQ(moved(), 4u) << "2.3 blocks are owed, and a unit is moved";
}

TEST_F(CollectorTest, TheEstimateCountsTheBandsInScope) {
  make_holes(2);
  files_.write(InodeNo{9}, 0, 8);
  files_.remove(InodeNo{9}, 0);
  const auto full = collector_.estimate({.least_dead_percent = 50});
  EXPECT_EQ(full.bands, 8u);
  EXPECT_EQ(full.live_blocks, kFileBlocks / 2);
  EXPECT_EQ(full.dead_blocks, kFileBlocks / 2);
  const auto open = collector_.estimate({.with_open = true, .least_dead_percent = 12});
  EXPECT_EQ(open.bands, 9u);
  EXPECT_EQ(open.live_blocks, kFileBlocks / 2 + 7);
  EXPECT_EQ(open.dead_blocks, kFileBlocks / 2 + 1);
  EXPECT_EQ(collector_.estimate({.with_open = true, .least_dead_percent = 13}).bands, 8u);
  EXPECT_EQ(collector_.estimate({.least_dead_percent = 12}).bands, 8u);
  EXPECT_EQ(collector_.estimate({.least_dead_percent = 51}).bands, 0u);
}

TEST_F(CollectorTest, YoungDataIsStillYoungAfterItWasMoved) {
  make_holes(2);
  ASSERT_EQ(collector_.clean_unit({}), true);
  const BandId to{8};
  ASSERT_GT(live_in(to.value), 0u);
  EXPECT_EQ(bands_.view(to).stream, data::Stream::kCollector);
  EXPECT_TRUE(bands_.is_young(to));
}

TEST_F(CollectorTest, OfBandsThatGainTheSameTheOneAppendedToLongAgoIsCleaned) {
  files_.write(kFile, 0, kBandBlocks);
  files_.write(InodeNo{4}, 0, kBandBlocks);
  for (std::uint64_t i = 0; i < kBandBlocks; ++i) files_.remove(kFile, i);
  ASSERT_TRUE(collector_.reset_empty_bands());
  files_.write(InodeNo{5}, 0, kBandBlocks);
  ASSERT_EQ(live_in(0), kBandBlocks) << "the first band is younger now";
  for (std::uint64_t i = 0; i < kBandBlocks; i += 2) {
    files_.remove(InodeNo{4}, i);
    files_.remove(InodeNo{5}, i);
  }
  ASSERT_EQ(collector_.clean_unit({}), true);
  EXPECT_EQ(live_in(0), kBandBlocks / 2);
  EXPECT_LT(live_in(1), kBandBlocks / 2);
}

// A job would seal the band, and move a part of it at most.
TEST_F(CollectorTest, AnOpenBandIsNotBegunWhoseLiveBlocksFitOnlyIntoItself) {
  files_.write(kFile, 0, kBandBlocks / 2);
  files_.remove(kFile, 0);
  for (std::uint32_t i = 1; i < kBands; ++i) bands_.set_bad(BandId{i});
  EXPECT_FALSE(collector_.make_room());
  EXPECT_EQ(bands_.view(BandId{0}).state, data::BandState::kOpen);
}

// Band 0 is as long as eight others together; all are full but the last two.
class LongVictimTest : public CollectorTest {
 protected:
  static constexpr std::uint32_t kShortBlocks = kBandBlocks / 8, kShortBands = 10;

  LongVictimTest() : CollectorTest(device()) {
    files_.write(kFile, 0, kBandBlocks + (kShortBands - 2) * kShortBlocks,
                 data::Stream::kCollector);
  }
  static std::unique_ptr<device::MemoryDevice> device() {
    device::Geometry geometry;
    geometry.band_blocks.assign(kShortBands, kShortBlocks);
    geometry.band_blocks.insert(geometry.band_blocks.begin(), kBandBlocks);
    geometry.band_kinds.assign(geometry.band_blocks.size(), device::BandKind::kShingled);
    return std::make_unique<device::MemoryDevice>(
        geometry, device::Capabilities{.set_write_pointer = true});
  }
  void remove_half(std::uint64_t first, std::uint64_t blocks) {
    for (std::uint64_t i = 0; i < blocks; i += 2) files_.remove(kFile, first + i);
  }
};

TEST_F(LongVictimTest, ABandIsNotBegunWhoseLiveBlocksHaveNoRoom) {
  remove_half(0, kBandBlocks);
  EXPECT_EQ(collector_.clean_unit({}), false);
  EXPECT_EQ(moved(), 0u);
}

TEST_F(LongVictimTest, ShorterBandsAreCleanedUntilTheLongOneHasRoom) {
  remove_half(0, 2 * kBandBlocks);
  EXPECT_TRUE(collector_.make_room());
  EXPECT_EQ(live_in(0), kBandBlocks / 2);
  EXPECT_EQ(collector_.clean_all(), ok());
  EXPECT_EQ(bands_.space().dead, 0u);
}

}  // namespace
}  // namespace lazyfs::gc
