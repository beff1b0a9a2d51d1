#include "zoned/zoned_device.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <new>

#include "base/buffer.h"
#include "test/support/result_printer.h"
#include "test/zoned/emulated_disk.h"

namespace lazyfs::zoned {
namespace {

using device::BandCondition;
using device::Piece;

class ZonedDeviceTest : public testing::Test {
 protected:
  void use(EmulatedMedium::Shape shape) {
    medium = std::make_shared<EmulatedMedium>(shape);
    open();
  }
  void open(bool read_only = false) {
    device.reset();
    device = *ZonedDevice::make(std::make_unique<EmulatedDisk>(medium), read_only);
  }
  Result<> append(std::uint32_t band, std::uint32_t rba, std::uint32_t blocks) {
    AlignedBuffer bytes(std::size_t{blocks} * kBlockBytes);
    std::memset(bytes.data(), 0x5A, bytes.size());
    return device->append({BandId{band}, rba}, Piece(bytes.span()));
  }
  Result<> read(std::uint32_t band, std::uint32_t rba) {
    return device->read({BandId{band}, rba}, block.span());
  }
  std::uint32_t pointer(std::uint32_t band) { return *device->write_pointer(BandId{band}); }
  BandCondition condition(std::uint32_t band) { return device->report(BandId{band})->condition; }

  void set_condition(std::uint32_t zone, ZoneCondition condition) {
    MutexLock lock(medium->mu);
    medium->zones[zone].condition = condition;
    const bool has_pointer =
        condition != ZoneCondition::kReadOnly && condition != ZoneCondition::kOffline;
    if (!has_pointer) medium->zones[zone].written_bytes = 0;
  }
  // Runs `work` in another thread. Returns after a moment, in which it has ended or waits.
  std::future<Result<>> beside(std::function<Result<>()> work) {
    auto running = std::async(std::launch::async, std::move(work));
    running.wait_for(std::chrono::milliseconds(50));
    return running;
  }
  Zone zone(std::uint32_t number) {
    MutexLock lock(medium->mu);
    return medium->zones[number];
  }
  // The next write fails after so many bytes.
  void fail_write(std::uint64_t bytes) {
    MutexLock lock(medium->mu);
    medium->failing_write = 1;
    medium->bytes_of_failing = bytes;
  }
  void fail_reads(std::uint64_t count) {
    MutexLock lock(medium->mu);
    medium->failing_reads = count;
  }
  void fail_resets(std::uint64_t count) {
    MutexLock lock(medium->mu);
    medium->failing_resets = count;
  }
  void fail_finishes(std::uint64_t count) {
    MutexLock lock(medium->mu);
    medium->failing_finishes = count;
  }
  void fail_syncs(std::uint64_t count) {
    MutexLock lock(medium->mu);
    medium->failing_syncs = count;
  }
  // How often the disk is flushed by one flush of the device.
  std::uint64_t syncs_of_flush() {
    const std::uint64_t before = syncs();
    EXPECT_EQ(device->flush(), ok());
    return syncs() - before;
  }
  std::uint64_t syncs() {
    MutexLock lock(medium->mu);
    return medium->syncs;
  }
  std::uint64_t writes() {
    MutexLock lock(medium->mu);
    return medium->writes;
  }
  std::uint64_t finishes() {
    MutexLock lock(medium->mu);
    return medium->finishes;
  }

  std::shared_ptr<EmulatedMedium> medium;
  std::unique_ptr<ZonedDevice> device;
  AlignedBuffer block = AlignedBuffer(kBlockBytes);
};

TEST_F(ZonedDeviceTest, TheSuperBandsAreTheFirstTwoSequentialZones) {
  use({.conventional = 3});
  EXPECT_EQ(device->geometry().super_bands, (std::array{BandId{3}, BandId{4}}));
  use({});
  EXPECT_EQ(device->geometry().super_bands, (std::array{BandId{0}, BandId{1}}));
}

TEST_F(ZonedDeviceTest, ABandHasTheCapacityOfItsZone) {
  use({.conventional = 1, .capacity_bytes = 40 * kBlockBytes});
  EXPECT_EQ(device->geometry().blocks_of(BandId{0}), 64u);
  EXPECT_EQ(device->geometry().blocks_of(BandId{1}), 40u);
  ASSERT_EQ(append(1, 0, 40), ok());
  ASSERT_EQ(append(2, 0, 1), ok());
  EXPECT_EQ(zone(1).condition, ZoneCondition::kFull);
  EXPECT_EQ(append(1, 40, 1), fail(Errc::kPastBandEnd));
}

TEST_F(ZonedDeviceTest, WritesNoMoreAtOnceThanTheDiskTakes) {
  use({.limits = {.max_write_bytes = 5 * kBlockBytes + 512}});
  ASSERT_EQ(append(0, 0, 12), ok());
  EXPECT_EQ(writes(), 3u);
  EXPECT_EQ(pointer(0), 12u);
}

TEST_F(ZonedDeviceTest, AfterAFailedWriteTheDiskSaysWhereThePointerIs) {
  use({.limits = {.max_write_bytes = 4 * kBlockBytes}});
  fail_write(2 * kBlockBytes + 512);
  EXPECT_EQ(append(0, 0, 4), fail(Errc::kDeviceWrite));
  EXPECT_EQ(pointer(0), 2u);
  EXPECT_EQ(append(0, 2, 1), fail(Errc::kBandFailed));
  EXPECT_EQ(read(0, 1), ok());
  ASSERT_EQ(device->reset(BandId{0}), ok());
  EXPECT_EQ(append(0, 0, 4), ok());
}

TEST_F(ZonedDeviceTest, FillsABlockThatAnEarlierSessionHasWrittenInPart) {
  use({});
  fail_write(3 * kBlockBytes + 512);
  EXPECT_EQ(append(0, 0, 6), fail(Errc::kDeviceWrite));
  open(true);
  EXPECT_EQ(pointer(0), 3u) << "a reader writes nothing";
  open();
  EXPECT_EQ(pointer(0), 4u);
  EXPECT_EQ(zone(0).written_bytes, 4u * kBlockBytes);
  ASSERT_EQ(read(0, 3), ok());
  EXPECT_EQ(block.span()[511], std::byte{0x5A});
  EXPECT_EQ(block.span()[512], std::byte{0});
  EXPECT_EQ(append(0, 4, 1), ok());
}

TEST_F(ZonedDeviceTest, AZoneWhoseBlockCannotBeFilledLeavesTheOthersUsable) {
  use({.limits = {.max_active_zones = 1}});
  fail_write(3 * kBlockBytes + 512);
  EXPECT_EQ(append(0, 0, 6), fail(Errc::kDeviceWrite));
  fail_write(512);
  open();
  EXPECT_EQ(pointer(0), 3u);
  EXPECT_EQ(append(0, 3, 1), fail(Errc::kBandFailed));
  EXPECT_EQ(read(0, 2), ok());
  EXPECT_EQ(append(1, 0, 1), ok()) << "the zone that failed is finished";
  ASSERT_EQ(device->reset(BandId{1}), ok());
  ASSERT_EQ(device->reset(BandId{0}), ok());
  EXPECT_EQ(append(0, 0, 1), ok());
}

TEST_F(ZonedDeviceTest, AZoneThatBecomesReadOnlyCanBeRead) {
  use({});
  ASSERT_EQ(append(0, 0, 2), ok());
  set_condition(0, ZoneCondition::kReadOnly);
  EXPECT_EQ(append(0, 2, 1), fail(Errc::kBandReadOnly));
  EXPECT_EQ(condition(0), BandCondition::kReadOnly);
  EXPECT_EQ(pointer(0), 2u);
  EXPECT_EQ(read(0, 1), ok());
  EXPECT_EQ(device->reset(BandId{0}), fail(Errc::kBandReadOnly));
  open();
  EXPECT_EQ(condition(0), BandCondition::kReadOnly);
  EXPECT_EQ(pointer(0), 64u) << "the disk does not say where it is";
  EXPECT_EQ(read(0, 1), ok());
}

TEST_F(ZonedDeviceTest, AZoneThatGoesOfflineIsKnownAtTheNextError) {
  use({});
  ASSERT_EQ(append(0, 0, 2), ok());
  ASSERT_EQ(append(1, 0, 2), ok());
  set_condition(0, ZoneCondition::kOffline);
  set_condition(1, ZoneCondition::kOffline);
  EXPECT_EQ(read(0, 1), fail(Errc::kBandOffline));
  EXPECT_EQ(append(1, 2, 1), fail(Errc::kBandOffline));
  EXPECT_EQ(condition(0), BandCondition::kOffline);
  EXPECT_EQ(device->write_pointer(BandId{1}), fail(Errc::kBandOffline));
  open();
  EXPECT_EQ(condition(0), BandCondition::kOffline);
}

TEST_F(ZonedDeviceTest, AReadErrorDoesNotMoveThePointerBackUnderAnAppend) {
  use({});
  ASSERT_EQ(append(0, 0, 4), ok());
  fail_reads(1);
  medium->after_report = [this] { ASSERT_EQ(append(0, 4, 4), ok()); };
  EXPECT_EQ(read(0, 0), fail(Errc::kDeviceRead));
  EXPECT_EQ(pointer(0), 8u);
  EXPECT_EQ(read(0, 5), ok());
  EXPECT_EQ(append(0, 8, 1), ok());
}

TEST_F(ZonedDeviceTest, FinishesASealedZoneOnlyWhenAnotherOneIsBegun) {
  use({.limits = {.max_active_zones = 2}});
  ASSERT_EQ(append(0, 0, 1), ok());
  ASSERT_EQ(append(1, 0, 1), ok());
  device->seal(BandId{0});
  EXPECT_EQ(finishes(), 0u);
  EXPECT_EQ(append(2, 0, 1), ok());
  EXPECT_EQ(finishes(), 1u);
  EXPECT_EQ(pointer(0), 64u);
  EXPECT_EQ(append(3, 0, 1), fail(Errc::kTooManyOpenBands));
  EXPECT_EQ(append(1, 1, 1), ok());
}

TEST_F(ZonedDeviceTest, AZoneThatCouldNotBeFinishedIsTriedAgain) {
  use({.limits = {.max_active_zones = 2}});
  ASSERT_EQ(append(0, 0, 1), ok());
  ASSERT_EQ(append(1, 0, 1), ok());
  device->seal(BandId{0});
  fail_finishes(1);
  EXPECT_EQ(append(2, 0, 1), fail(Errc::kTooManyOpenBands));
  EXPECT_EQ(append(2, 0, 1), ok());
  EXPECT_EQ(zone(0).condition, ZoneCondition::kFull);
}

TEST_F(ZonedDeviceTest, WhenAZoneCannotBeFinishedAnotherOneIs) {
  use({.limits = {.max_active_zones = 2}});
  ASSERT_EQ(append(0, 0, 1), ok());
  ASSERT_EQ(append(1, 0, 1), ok());
  device->seal(BandId{0});
  device->seal(BandId{1});
  fail_finishes(1);
  EXPECT_EQ(append(2, 0, 1), ok());
  EXPECT_EQ(finishes(), 1u);
  EXPECT_EQ(zone(1).condition, ZoneCondition::kFull);
}

TEST_F(ZonedDeviceTest, AZoneThatIsBeingResetIsNotFinishedButMakesRoom) {
  use({.limits = {.max_active_zones = 2}});
  ASSERT_EQ(append(0, 0, 1), ok());
  ASSERT_EQ(append(1, 0, 1), ok());
  device->seal(BandId{0});
  std::future<Result<>> beside;
  medium->after_reset = [&] {
    beside = std::async(std::launch::async, [this] { return append(2, 0, 1); });
    beside.wait_for(std::chrono::milliseconds(50));
  };
  EXPECT_EQ(device->reset(BandId{0}), ok());
  EXPECT_EQ(beside.get(), ok());
  EXPECT_EQ(finishes(), 0u);
  EXPECT_EQ(pointer(0), 0u);
  EXPECT_EQ(zone(0).condition, ZoneCondition::kEmpty);
}

TEST_F(ZonedDeviceTest, AZoneThatIsSealedDuringAnAppendIsFinishedAfterIt) {
  use({.limits = {.max_active_zones = 1}});
  ASSERT_EQ(append(0, 0, 1), ok());
  std::future<Result<>> beside;
  std::uint64_t finished_during = 0;
  medium->after_write = [&] {
    device->seal(BandId{0});
    beside = std::async(std::launch::async, [this] { return append(1, 0, 1); });
    beside.wait_for(std::chrono::milliseconds(50));
    finished_during = finishes();
  };
  EXPECT_EQ(append(0, 1, 1), ok());
  EXPECT_EQ(beside.get(), ok());
  EXPECT_EQ(finished_during, 0u);
  EXPECT_EQ(zone(0).condition, ZoneCondition::kFull);
  ASSERT_EQ(device->reset(BandId{1}), ok());
  EXPECT_EQ(append(2, 0, 1), ok()) << "the finished zone counts no more";
}

TEST_F(ZonedDeviceTest, AZoneCountsFromTheBeginningOfItsFirstAppend) {
  use({.limits = {.max_active_zones = 1}});
  medium->after_write = [this] {
    EXPECT_EQ(append(1, 0, 1), fail(Errc::kTooManyOpenBands));
  };
  EXPECT_EQ(append(0, 0, 1), ok());
  ASSERT_EQ(device->reset(BandId{0}), ok());
  EXPECT_EQ(append(1, 0, 1), ok()) << "the refused append has not reached the disk";
}

TEST_F(ZonedDeviceTest, OfTwoAppendsThatWaitedForRoomOneIsRefused) {
  use({.limits = {.max_active_zones = 1}});
  ASSERT_EQ(append(0, 0, 1), ok());
  std::future<Result<>> one, two;
  medium->after_reset = [&] {
    one = beside([this] { return append(1, 0, 1); });
    two = beside([this] { return append(1, 0, 1); });
  };
  EXPECT_EQ(device->reset(BandId{0}), ok());
  const Result<> first = one.get(), second = two.get();
  EXPECT_NE(first, second);
  EXPECT_EQ(first ? second : first, fail(Errc::kNotAtWritePointer));
  EXPECT_EQ(pointer(1), 1u);
  EXPECT_EQ(append(1, 1, 1), ok());
}

TEST_F(ZonedDeviceTest, AZoneThatIsBeingFinishedTakesNoAppendAndIsResetAfterIt) {
  use({.limits = {.max_active_zones = 1}});
  ASSERT_EQ(append(0, 0, 1), ok());
  device->seal(BandId{0});
  std::future<Result<>> reset;
  medium->after_finish = [&] {
    EXPECT_EQ(append(0, 1, 1), fail(Errc::kNotAtWritePointer));
    reset = beside([this] { return device->reset(BandId{0}); });
  };
  EXPECT_EQ(append(1, 0, 1), ok());
  EXPECT_EQ(reset.get(), ok());
  EXPECT_EQ(pointer(0), 0u);
  EXPECT_EQ(zone(0).condition, ZoneCondition::kEmpty);
}

TEST_F(ZonedDeviceTest, AZoneThatCouldNotBeFinishedIsResetAfterIt) {
  use({.limits = {.max_active_zones = 1}});
  ASSERT_EQ(append(0, 0, 1), ok());
  device->seal(BandId{0});
  fail_finishes(1);
  std::future<Result<>> reset;
  medium->after_finish = [&] { reset = beside([this] { return device->reset(BandId{0}); }); };
  EXPECT_EQ(append(1, 0, 1), fail(Errc::kTooManyOpenBands));
  EXPECT_EQ(reset.get(), ok());
  EXPECT_EQ(append(1, 0, 1), ok());
}

TEST_F(ZonedDeviceTest, AnAppendWaitsWhileAnotherOneMakesRoom) {
  use({.limits = {.max_active_zones = 2}});
  ASSERT_EQ(append(0, 0, 1), ok());
  ASSERT_EQ(append(1, 0, 1), ok());
  device->seal(BandId{0});
  std::future<Result<>> other;
  medium->after_finish = [&] {
    other = beside([this] { return append(2, 0, 1); });
    device->seal(BandId{1});  // there is room for both
  };
  EXPECT_EQ(append(3, 0, 1), ok());
  EXPECT_EQ(other.get(), ok());
  EXPECT_EQ(finishes(), 2u);
}

TEST_F(ZonedDeviceTest, AResetWaitsForAnAppend) {
  use({});
  ASSERT_EQ(append(0, 0, 1), ok());
  std::future<Result<>> reset;
  medium->after_write = [&] { reset = beside([this] { return device->reset(BandId{0}); }); };
  EXPECT_EQ(append(0, 1, 1), ok());
  EXPECT_EQ(reset.get(), ok());
  EXPECT_EQ(pointer(0), 0u);
  EXPECT_EQ(append(0, 0, 1), ok());
}

TEST_F(ZonedDeviceTest, AZoneThatIsBeingResetTakesNoAppend) {
  use({});
  ASSERT_EQ(append(0, 0, 1), ok());
  medium->after_reset = [this] {
    EXPECT_EQ(append(0, 1, 1), fail(Errc::kNotAtWritePointer));
  };
  EXPECT_EQ(device->reset(BandId{0}), ok());
  EXPECT_EQ(append(0, 0, 1), ok());
}

TEST_F(ZonedDeviceTest, AfterAResetNothingIsWaitedFor) {
  use({.limits = {.max_active_zones = 1}});
  ASSERT_EQ(append(0, 0, 1), ok());
  ASSERT_EQ(device->reset(BandId{0}), ok());
  ASSERT_EQ(append(1, 0, 1), ok());
  EXPECT_EQ(append(2, 0, 1), fail(Errc::kTooManyOpenBands));
}

TEST_F(ZonedDeviceTest, AnOfflineZoneStaysSoWhenAnEarlierReportComesLate) {
  use({});
  ASSERT_EQ(append(0, 0, 2), ok());
  fail_reads(1);
  medium->after_report = [this] {
    set_condition(0, ZoneCondition::kOffline);
    EXPECT_EQ(read(0, 0), fail(Errc::kBandOffline));
  };
  EXPECT_EQ(read(0, 0), fail(Errc::kBandOffline));
  EXPECT_EQ(condition(0), BandCondition::kOffline);
}

TEST_F(ZonedDeviceTest, ADiskWithMoreZonesThanOneReportHasAllOfThem) {
  use({.conventional = 4500, .zones = 5000, .zone_bytes = kBlockBytes});
  EXPECT_EQ(device->geometry().band_count(), 5000u);
  EXPECT_EQ(device->geometry().super_bands, (std::array{BandId{4500}, BandId{4501}}));
  ASSERT_EQ(append(4999, 0, 1), ok());
  EXPECT_EQ(zone(4999).condition, ZoneCondition::kFull);
}

TEST_F(ZonedDeviceTest, AZoneThatCouldNotBeResetIsFinished) {
  use({.limits = {.max_active_zones = 2}});
  ASSERT_EQ(append(0, 0, 1), ok());
  ASSERT_EQ(append(1, 0, 1), ok());
  device->seal(BandId{0});
  fail_resets(1);
  EXPECT_EQ(device->reset(BandId{0}), fail(Errc::kDeviceWrite));
  EXPECT_EQ(append(2, 0, 1), ok());
  EXPECT_EQ(zone(0).condition, ZoneCondition::kFull);
}

TEST_F(ZonedDeviceTest, AZoneWhoseWriteFailedMakesRoomForAnother) {
  use({.limits = {.max_active_zones = 2}});
  ASSERT_EQ(append(0, 0, 1), ok());
  fail_write(kBlockBytes);
  EXPECT_EQ(append(1, 0, 2), fail(Errc::kDeviceWrite));
  EXPECT_EQ(append(2, 0, 1), ok());
  EXPECT_EQ(zone(1).condition, ZoneCondition::kFull);
}

TEST_F(ZonedDeviceTest, AZoneThatTookNothingOfItsFirstWriteIsNotOpen) {
  use({.limits = {.max_active_zones = 2}});
  ASSERT_EQ(append(0, 0, 1), ok());
  fail_write(0);
  EXPECT_EQ(append(1, 0, 2), fail(Errc::kDeviceWrite));
  EXPECT_EQ(append(2, 0, 1), ok());
  EXPECT_EQ(finishes(), 0u);
}

TEST_F(ZonedDeviceTest, AZoneThatTookAPartOfItsFirstBlockIsOpen) {
  use({.limits = {.max_active_zones = 1}});
  fail_write(512);
  EXPECT_EQ(append(0, 0, 2), fail(Errc::kDeviceWrite));
  EXPECT_EQ(pointer(0), 0u);
  EXPECT_EQ(append(1, 0, 1), ok()) << "the zone that failed is finished";
  EXPECT_EQ(zone(0).condition, ZoneCondition::kFull);
  ASSERT_EQ(device->reset(BandId{0}), ok());
  EXPECT_EQ(pointer(0), 0u);
}

TEST_F(ZonedDeviceTest, AFullBandWhoseZoneHasAPartOfABlockLeftIsFinished) {
  use({.capacity_bytes = 9 * kBlockBytes + 512, .limits = {.max_active_zones = 1}});
  ASSERT_EQ(append(0, 0, 9), ok());
  EXPECT_EQ(zone(0).condition, ZoneCondition::kImplicitlyOpen);
  EXPECT_EQ(append(1, 0, 1), ok());
  EXPECT_EQ(zone(0).condition, ZoneCondition::kFull);
}

TEST_F(ZonedDeviceTest, AZoneIsFinishedWhoseLastBlockWasFilledAtTheOpening) {
  use({.capacity_bytes = 9 * kBlockBytes + 512, .limits = {.max_active_zones = 1}});
  fail_write(8 * kBlockBytes + 512);
  EXPECT_EQ(append(0, 0, 9), fail(Errc::kDeviceWrite));
  open();
  EXPECT_EQ(pointer(0), 9u);
  EXPECT_EQ(zone(0).condition, ZoneCondition::kImplicitlyOpen);
  EXPECT_EQ(append(1, 0, 1), ok());
  EXPECT_EQ(zone(0).condition, ZoneCondition::kFull);
}

TEST_F(ZonedDeviceTest, AZoneThatBecomesReadOnlyDuringAnAppendMakesRoom) {
  use({.limits = {.max_active_zones = 1}});
  ASSERT_EQ(append(0, 0, 1), ok());
  medium->after_write = [this] {
    set_condition(0, ZoneCondition::kReadOnly);
    fail_reads(1);
    EXPECT_EQ(read(0, 0), fail(Errc::kDeviceRead));
  };
  EXPECT_EQ(append(0, 1, 1), ok());
  EXPECT_EQ(condition(0), BandCondition::kReadOnly);
  EXPECT_EQ(pointer(0), 2u);
  EXPECT_EQ(append(1, 0, 1), ok());
}

TEST_F(ZonedDeviceTest, AZoneThatAnotherProgramHasOpenedCounts) {
  use({.limits = {.max_active_zones = 2}});
  set_condition(5, ZoneCondition::kExplicitlyOpen);
  open();
  ASSERT_EQ(append(0, 0, 1), ok());
  EXPECT_EQ(append(1, 0, 1), fail(Errc::kTooManyOpenBands));
  ASSERT_EQ(device->reset(BandId{5}), ok());
  EXPECT_EQ(append(1, 0, 1), ok());
}

TEST_F(ZonedDeviceTest, TheLowerLimitCounts) {
  use({.limits = {.max_open_zones = 6, .max_active_zones = 14}});
  EXPECT_EQ(device->capabilities().max_open_bands, 6u);
  use({.limits = {.max_open_zones = 128}});
  EXPECT_EQ(device->capabilities().max_open_bands, 128u);
  use({});
  EXPECT_EQ(device->capabilities().max_open_bands, 0u);
  EXPECT_FALSE(device->capabilities().set_write_pointer);
}

TEST_F(ZonedDeviceTest, AFlushReachesTheDiskAfterEachKindOfChange) {
  use({.limits = {.max_active_zones = 1}});
  EXPECT_EQ(syncs_of_flush(), 0u);
  fail_write(512);
  EXPECT_EQ(append(0, 0, 1), fail(Errc::kDeviceWrite));
  EXPECT_EQ(syncs_of_flush(), 1u) << "an append that failed";
  open();
  EXPECT_EQ(syncs_of_flush(), 1u) << "the block that was filled at the opening";
  ASSERT_EQ(device->reset(BandId{0}), ok());
  EXPECT_EQ(syncs_of_flush(), 1u) << "a reset";
  ASSERT_EQ(append(0, 0, 1), ok());
  EXPECT_EQ(syncs_of_flush(), 1u) << "an append";
  EXPECT_EQ(syncs_of_flush(), 0u);
}

TEST_F(ZonedDeviceTest, AfterAFailedFlushOfTheDiskEveryFlushFails) {
  use({});
  ASSERT_EQ(append(0, 0, 1), ok());
  fail_syncs(1);
  EXPECT_EQ(device->flush(), fail(Errc::kDeviceFlush));
  EXPECT_EQ(device->flush(), fail(Errc::kDeviceFlush)) << "the disk may have lost the append";
}

TEST_F(ZonedDeviceTest, ABandThatFailedAtItsFirstBlockCanBeResetAndUsed) {
  use({});
  fail_write(0);
  EXPECT_EQ(append(0, 0, 1), fail(Errc::kDeviceWrite));
  EXPECT_EQ(append(0, 0, 1), fail(Errc::kBandFailed));
  ASSERT_EQ(device->reset(BandId{0}), ok());
  EXPECT_EQ(append(0, 0, 1), ok());
}

TEST_F(ZonedDeviceTest, AnAppendThatLacksMemoryEndsAndTheBandCanBeReset) {
  use({});
  medium->after_write = medium->after_report = [] { throw std::bad_alloc(); };
  EXPECT_EQ(append(0, 0, 1), fail(Errc::kNoMemory));
  EXPECT_EQ(append(0, 0, 1), fail(Errc::kBandFailed));
  ASSERT_EQ(device->reset(BandId{0}), ok());
  EXPECT_EQ(append(0, 0, 1), ok());
}

TEST_F(ZonedDeviceTest, AnOpenZoneThatBecomesReadOnlyMakesRoom) {
  use({.limits = {.max_active_zones = 1}});
  ASSERT_EQ(append(0, 0, 1), ok());
  set_condition(0, ZoneCondition::kReadOnly);
  EXPECT_EQ(append(0, 1, 1), fail(Errc::kBandReadOnly));
  EXPECT_EQ(append(1, 0, 1), ok());
}

TEST_F(ZonedDeviceTest, AFullZoneIsFullWhereverItsDiskPutsThePointer) {
  use({});
  set_condition(0, ZoneCondition::kFull);
  open();
  EXPECT_EQ(pointer(0), 64u);
}

TEST_F(ZonedDeviceTest, RefusesZonesThatNoDiskHas) {
  const auto error_with = [](std::uint64_t start_bytes, std::uint64_t capacity_bytes) {
    const auto odd = std::make_shared<EmulatedMedium>(EmulatedMedium::Shape{});
    {
      MutexLock lock(odd->mu);
      odd->zones[1].start_bytes += start_bytes;
      odd->zones[1].capacity_bytes += capacity_bytes;
    }
    const auto made = ZonedDevice::make(std::make_unique<EmulatedDisk>(odd), true);
    return made ? Errc::kInternal : made.error();
  };
  EXPECT_EQ(error_with(512, 0), Errc::kZonesBad) << "within a block";
  EXPECT_EQ(error_with(0, kBlockBytes), Errc::kZonesBad) << "larger than the zone";
  EXPECT_EQ(error_with(0, 0), Errc::kInternal);
}

TEST_F(ZonedDeviceTest, RefusesSectorsThatNoBlockIsMadeOf) {
  const auto medium_of_sectors = [](std::uint32_t bytes) {
    return std::make_shared<EmulatedMedium>(
        EmulatedMedium::Shape{.limits = {.write_bytes = bytes}});
  };
  const auto make = [](const std::shared_ptr<EmulatedMedium>& of) {
    return ZonedDevice::make(std::make_unique<EmulatedDisk>(of), false);
  };
  EXPECT_EQ(make(medium_of_sectors(8192)).error(), Errc::kZonesBad);
  EXPECT_TRUE(make(medium_of_sectors(4096)));
}

}  // namespace
}  // namespace lazyfs::zoned
