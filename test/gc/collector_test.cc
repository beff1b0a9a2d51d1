// The collector without a filesystem: a few files in memory implement its port.
#include "gc/collector.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <vector>

#include "device/faulty.h"
#include "device/memory.h"
#include "fake_files.h"

namespace lazyfs::gc {
namespace {

using device::Call;
using device::CallInfo;
using device::Fault;

class SteppedClock final : public Clock {
 public:
  Timestamp now() override { return {1'700'000'000, 0}; }
  std::chrono::nanoseconds monotonic() override { return time; }
  std::chrono::nanoseconds time = std::chrono::hours(1);
};

class CollectorTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBands = 32, kBandBlocks = 64;
  static constexpr InodeNo kFile{2}, kDamaged{3};
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
  // From now on the block cannot be read and, while `appends_fail_`, nothing can be appended.
  void break_block(BandAddress bad) {
    faulty_.fail_when([this, bad](const CallInfo& info) -> std::optional<Fault> {
      const bool is_hit = info.call == Call::kRead && info.at.band == bad.band &&
                          info.at.rba <= bad.rba && bad.rba < info.at.rba + info.blocks;
      if (is_hit) return Fault{Errc::kDeviceRead};
      const bool fails = info.call == Call::kAppend && appends_fail_;
      return fails ? std::optional(Fault{Errc::kDeviceWrite}) : std::nullopt;
    });
  }
  // Appends fail under the first attempt.
  void evacuate_at_second_attempt() {
    appends_fail_ = true;
    EXPECT_EQ(collector_.evacuate_failed_bands(), fail(Errc::kDeviceWrite));
    appends_fail_ = false;
    clock_.time += std::chrono::seconds(1);
    EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  }
  std::uint64_t live_in(std::uint32_t band) const {
    return bands_.view(BandId{band}).counters.live;
  }

  const std::unique_ptr<device::MemoryDevice> device_;
  device::FaultyDevice faulty_{*device_};
  data::BandTable bands_{device_->geometry(), {}, {}};
  data::Appender appender_{faulty_, bands_, data::Placement::kFirstFit, [] { return 0u; }};
  FakeFiles files_{bands_, appender_};
  SteppedClock clock_;
  bool appends_fail_ = false;
  Collector collector_{files_, faulty_, bands_, appender_, clock_, CleanMode::kWhole};
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

TEST_F(CollectorTest, BandIsResetOnlyAfterACommit) {
  files_.write(kFile, 0, kBandBlocks);
  for (std::uint64_t i = 0; i < kBandBlocks; ++i) files_.remove(kFile, i);
  ASSERT_TRUE(collector_.reset_empty_bands());
  EXPECT_EQ(files_.commits, 1u);
  EXPECT_EQ(collector_.counters().bands_reset, 1u);
  ASSERT_TRUE(collector_.reset_empty_bands());
  EXPECT_EQ(files_.commits, 1u);  // nothing to do
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
  const std::uint64_t room = bands_.user_room().blocks;
  files_.write(InodeNo{3}, 0, static_cast<std::uint32_t>(room - 2 * kBandBlocks));
  collector_.help(kBandBlocks);
  EXPECT_GT(moved(), 0u);
}

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
      const InodeNo last = band < kHalf ? kDamaged : kFile;
      const std::uint64_t first_block = std::uint64_t{band} * kBandBlocks;
      files_.write(kFile, first_block, 1);
      files_.write(kFile, first_block + 1, kBandBlocks - 2);
      files_.write(last, first_block + kBandBlocks - 1, 1);
      for (std::uint64_t i = 1; i < kBandBlocks - 1; ++i) files_.remove(kFile, first_block + i);
    }
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

// ---- devices without write pointers -------------------------------------------------------------

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
