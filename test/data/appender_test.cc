#include "data/appender.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "data/verified_read.h"
#include "device/faulty.h"
#include "device/memory.h"
#include "test/support/result_printer.h"

namespace lazyfs::data {
namespace {

// Bands 0 and 1 hold superblocks, band 2 the log; the other bands take 4 blocks each.
class AppenderTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBands = 12, kBandBlocks = 4;
  static constexpr BandId kFirst{3};

  ~AppenderTest() override { EXPECT_EQ(table.check_invariants(), ""); }

  Result<Placed> append(Lease& lease, std::size_t blocks) {
    const std::vector<device::Piece> pieces(blocks, page.span());
    auto placed = lease.append(pieces);
    if (placed) {
      table.account_append(placed->at.band, placed->blocks(), placed->blocks(), 1);
      lease.recorded(placed->blocks());
    }
    return placed;
  }
  Result<Placed> append_once(Stream stream, std::size_t blocks) {
    ASSIGN_OR_RETURN(Lease lease, appender.lease(stream, blocks));
    return append(lease, blocks);
  }

  std::unique_ptr<device::MemoryDevice> memory = device::MemoryDevice::uniform(kBands, kBandBlocks);
  device::FaultyDevice device{*memory};
  BandTable table{memory->geometry(), std::array{BandId{0}, BandId{1}}, std::array{BandId{2}}};
  Appender appender{device, table, Placement::kFirstFit, [] { return 0; }};
  AlignedBuffer page = AlignedBuffer(kBlockBytes);
};

TEST_F(AppenderTest, AppendsWhereTheLastAppendEnded) {
  const auto first = append_once(Stream::kSmall, 1), second = append_once(Stream::kSmall, 2);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->at, (BandAddress{kFirst, 0}));
  EXPECT_EQ(second->at, (BandAddress{kFirst, 1}));
  EXPECT_EQ(memory->write_pointer(kFirst), 3u);
}

TEST_F(AppenderTest, AppendsNoMoreThanTheBandHasRoomFor) {
  auto lease = appender.lease(Stream::kSmall, 6);
  ASSERT_TRUE(lease);
  const auto placed = append(*lease, 6);
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->blocks(), kBandBlocks);
  EXPECT_EQ(lease->room(), 0u);
}

TEST_F(AppenderTest, BeginsABandWhenTheLastIsFull) {
  ASSERT_TRUE(append_once(Stream::kSmall, kBandBlocks));
  EXPECT_EQ(table.view(kFirst).state, BandState::kFull);
  const auto next = append_once(Stream::kSmall, 1);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->at, (BandAddress{BandId{4}, 0}));
}

TEST_F(AppenderTest, KeepsStreamsApart) {
  const auto fresh = append_once(Stream::kSmall, 1), moved = append_once(Stream::kCollector, 1);
  ASSERT_TRUE(fresh && moved);
  EXPECT_NE(fresh->at.band, moved->at.band);
}

TEST_F(AppenderTest, GivesAppendersAtTheSameTimeDifferentBands) {
  auto first = appender.lease(Stream::kSmall, 1), second = appender.lease(Stream::kSmall, 1);
  ASSERT_TRUE(first && second);
  const auto a = append(*first, 1), b = append(*second, 1);
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->at.band, b->at.band);
}

TEST_F(AppenderTest, ReadsBackWhatItChecksummed) {
  std::memset(page.data(), 0x5A, page.size());
  const auto placed = append_once(Stream::kSmall, 2);
  ASSERT_TRUE(placed);
  AlignedBuffer read(2 * kBlockBytes);
  EXPECT_EQ(read_verified(device, placed->at, placed->crcs, read.span()), ok());
  EXPECT_EQ(std::memcmp(read.data() + kBlockBytes, page.data(), kBlockBytes), 0);
  memory->flip({placed->at.band, 1}, 77);
  EXPECT_EQ(read_verified(device, placed->at, placed->crcs, read.span()),
            fail(Errc::kDataChecksumBad));
}

TEST_F(AppenderTest, SetsABandAsideWhoseAppendFailed) {
  device.fail_nth(device::Call::kAppend, 1, {.error = Errc::kDeviceWrite, .blocks_done = 1});
  EXPECT_EQ(append_once(Stream::kSmall, 2).error(), Errc::kDeviceWrite);
  EXPECT_EQ(table.view(kFirst).state, BandState::kBad);
  const auto next = append_once(Stream::kSmall, 2);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->at.band, BandId{4});
}

TEST_F(AppenderTest, ABandIsNotGivenUpBecauseTheDeviceHasNoSpace) {
  for (const Errc error : {Errc::kDeviceNoSpace, Errc::kDeviceWrite}) {
    for (int i = 0; i < 3; ++i) {
      device.fail_nth(device::Call::kAppend, 1, {.error = error});
      EXPECT_EQ(append_once(Stream::kSmall, 1).error(), error);
      EXPECT_TRUE(append_once(Stream::kCollector, 1));  // another band works
      EXPECT_EQ(table.view(kFirst).is_given_up, error == Errc::kDeviceWrite && i == 2);
      if (!table.begin_retry(kFirst)) continue;
      EXPECT_TRUE(device.reset(kFirst));
      table.finish_reset(kFirst, true);
    }
  }
}

TEST_F(AppenderTest, SetsABandAsideWhoseAppendWasNotRecorded) {
  {
    auto lease = appender.lease(Stream::kSmall, 1);
    ASSERT_TRUE(lease);
    const std::vector<device::Piece> pieces(1, page.span());
    ASSERT_TRUE(lease->append(pieces));
  }
  EXPECT_EQ(table.view(kFirst).state, BandState::kBad);
}

TEST_F(AppenderTest, HasNoSpaceForUsersWhenOnlyTheReserveIsFree) {
  while (table.space().free_bands > 2) ASSERT_TRUE(append_once(Stream::kSmall, kBandBlocks));
  EXPECT_EQ(appender.lease(Stream::kSmall, 1).error(), Errc::kNoSpace);
  EXPECT_TRUE(append_once(Stream::kCollector, 1));
  // It does not follow the collector's block, unless nothing else is left.
  EXPECT_EQ(appender.lease(Stream::kSmall, 1).error(), Errc::kNoSpace);
  EXPECT_TRUE(appender.lease(Stream::kSmall, 1, true));
}

TEST_F(AppenderTest, WaitsForTheEndOfALeaseWhenNothingElseIsLeft) {
  while (table.space().free_bands > 3) ASSERT_TRUE(append_once(Stream::kSmall, kBandBlocks));
  ASSERT_TRUE(append_once(Stream::kSmall, 1));
  std::optional<Lease> held = *appender.lease(Stream::kSmall, 1);
  Result<Placed> placed = fail(Errc::kInvalid);
  std::jthread waiter([&] { placed = append_once(Stream::kSmall, 1); });
  held.reset();
  waiter.join();
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->at.rba, 1u);
}

TEST_F(AppenderTest, RandomPlacementBeginsBandsAnywhere) {
  std::uint64_t number = 0;
  Appender random(device, table, Placement::kRandom, [&number] { return number += 7; });
  std::set<BandId> bands;
  for (int i = 0; i < 3; ++i) {
    auto lease = random.lease(Stream::kSmall, kBandBlocks);
    ASSERT_TRUE(lease);
    const auto placed = append(*lease, kBandBlocks);
    ASSERT_TRUE(placed);
    bands.insert(placed->at.band);
  }
  EXPECT_EQ(bands.size(), 3u);
  EXPECT_NE(bands, (std::set{BandId{3}, BandId{4}, BandId{5}}));
}

TEST_F(AppenderTest, PlacementChangesFromTheNextLeaseOn) {
  // Two open bands of one stream: the lower one has more room, the upper one just enough.
  auto low = appender.lease(Stream::kSmall, 1), high = appender.lease(Stream::kSmall, 1);
  ASSERT_TRUE(low && high);
  const auto first = append(*low, 1), second = append(*high, kBandBlocks - 1);
  ASSERT_TRUE(first && second);
  low = fail(Errc::kInvalid);
  high = fail(Errc::kInvalid);
  appender.set_policy(Placement::kBestFit);
  EXPECT_EQ(append_once(Stream::kSmall, 1)->at.band, second->at.band);
  appender.set_policy(Placement::kFirstFit);
  EXPECT_EQ(append_once(Stream::kSmall, 1)->at.band, first->at.band);
}

TEST_F(AppenderTest, OpensAsManyBandsAsTheMetadataLeaves) {
  device::MemoryDevice limited(memory->geometry(), {.max_open_bands = 7});
  Appender few(limited, table, Placement::kFirstFit, [] { return 0; });
  auto first = few.lease(Stream::kSmall, 1), second = few.lease(Stream::kSmall, 1);
  ASSERT_TRUE(first && second);
  auto collectors = few.lease(Stream::kCollector, 1);
  ASSERT_TRUE(collectors);
  EXPECT_EQ(table.space().free_bands, kBands - 6);
  first = fail(Errc::kInvalid);
  EXPECT_EQ(few.lease(Stream::kLarge, 1)->band(), kFirst) << "it shares the band of small files";
}

TEST_F(AppenderTest, ABandThatTheDeviceMayNotBeginIsNotGivenUp) {
  for (int i = 0; i < 5; ++i) {
    device.fail_nth(device::Call::kAppend, 1, {Errc::kTooManyOpenBands});
    ASSERT_FALSE(append_once(Stream::kSmall, 1));
    ASSERT_EQ(table.view(kFirst).state, BandState::kBad);
    ASSERT_TRUE(table.begin_retry(kFirst)) << i;
    ASSERT_EQ(device.reset(kFirst), ok());
    table.finish_reset(kFirst, true);
  }
}

TEST_F(AppenderTest, SealsWhatAnEarlierSessionHadOpenPastTheLimit) {
  memory = device::MemoryDevice::uniform(kBands, kBandBlocks, {.max_open_bands = 6});
  device::FaultyDevice limited(*memory);
  Appender few(limited, table, Placement::kFirstFit, [] { return 0; });
  for (std::uint32_t i = 3; i < 9; ++i) {
    ASSERT_EQ(memory->append({BandId{i}, 0}, page.span()), ok());
    table.restore(BandId{i}, {.appended = 1, .live = 1, .append_records = 1});
  }
  ASSERT_EQ(memory->append({BandId{9}, 0}, page.span()), fail(Errc::kTooManyOpenBands));
  few.seal_surplus();
  EXPECT_EQ(memory->append({BandId{9}, 0}, page.span()), ok());
  EXPECT_EQ(table.view(BandId{8}).state, BandState::kOpen) << "one remains";
  EXPECT_EQ(table.view(BandId{7}).state, BandState::kFull) << "another one may be begun";
}

TEST_F(AppenderTest, SealsNothingWhereTheDeviceHasNoLimit) {
  for (std::uint32_t i = kFirst.value; i < kBands; ++i) {
    ASSERT_EQ(memory->append({BandId{i}, 0}, page.span()), ok());
    table.restore(BandId{i}, {.appended = 1, .live = 1, .append_records = 1});
  }
  appender.seal_surplus();
  for (std::uint32_t i = kFirst.value; i < kBands; ++i) {
    EXPECT_EQ(table.view(BandId{i}).state, BandState::kOpen) << i;
  }
}

// The device keeps no write pointers, and was opened a moment ago: it does not know the ends.
class AppenderWithoutPointersTest : public testing::Test {
 protected:
  static constexpr BandId kFirst{3}, kSecond{4};

  AppenderWithoutPointersTest() { memory->forget_write_pointers(); }
  bool append_once() {
    auto lease = appender.lease(Stream::kSmall, 1);
    if (!lease) return false;
    const std::vector<device::Piece> pieces(1, page.span());
    const auto placed = lease->append(pieces);
    if (!placed) return false;
    table.account_append(placed->at.band, 1, 1, 1);
    lease->recorded(1);
    return true;
  }

  std::unique_ptr<device::MemoryDevice> memory =
      device::MemoryDevice::uniform(12, 4, {.keeps_write_pointers = false});
  device::FaultyDevice device{*memory};
  BandTable table{memory->geometry(), std::array{BandId{0}, BandId{1}}, std::array{BandId{2}}};
  Appender appender{device, table, Placement::kFirstFit, [] { return 0; }};
  AlignedBuffer page = AlignedBuffer(kBlockBytes);
};

TEST_F(AppenderWithoutPointersTest, ABandIsResetWhenItIsBegunAndNotAgain) {
  EXPECT_TRUE(append_once());
  EXPECT_TRUE(append_once());
  EXPECT_EQ(memory->write_pointer(kFirst), 2u);
  EXPECT_EQ(table.view(kFirst).counters.appended, 2u);
}

TEST_F(AppenderWithoutPointersTest, ABandThatIsKnownToBeEmptyIsNotReset) {
  ASSERT_TRUE(memory->reset(kFirst));
  device.fail_nth(device::Call::kReset, 1, {Errc::kDeviceWrite});
  EXPECT_TRUE(append_once());
  EXPECT_EQ(table.view(kFirst).state, BandState::kOpen);
}

TEST_F(AppenderWithoutPointersTest, ABandThatCannotBeResetIsSetAsideForAnother) {
  device.fail_nth(device::Call::kReset, 1, {Errc::kDeviceWrite});
  EXPECT_TRUE(append_once());
  EXPECT_EQ(table.view(kFirst).state, BandState::kBad);
  EXPECT_EQ(table.view(kSecond).state, BandState::kOpen);
}

}  // namespace
}  // namespace lazyfs::data
