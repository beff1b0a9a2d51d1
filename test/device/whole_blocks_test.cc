// Devices of small blocks used in whole ones, beyond the contract, which test/edi runs on one.
#include "device/whole_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "device/faulty.h"
#include "device/forwarding.h"
#include "device/power_cut.h"
#include "test/support/result_printer.h"
#include "test/support/seed.h"

namespace lazyfs::device {
namespace {

constexpr std::uint32_t kSector = 512, kSectors = kBlockBytes / kSector;

Geometry sectors(std::vector<std::uint32_t> band_sectors) {
  const std::vector<BandKind> kinds(band_sectors.size(), BandKind::kShingled);
  return {.block_bytes = kSector, .band_blocks = std::move(band_sectors), .band_kinds = kinds};
}

AlignedBuffer filled(std::size_t bytes, unsigned with) {
  AlignedBuffer buffer(bytes);
  std::fill_n(buffer.data(), bytes, static_cast<std::byte>(with));
  return buffer;
}

Result<> append(Device& device, BandAddress at, std::size_t bytes, unsigned with) {
  const AlignedBuffer buffer = filled(bytes, with);
  return device.append(at, Piece(buffer.span()));
}

// `inner` stays the caller's.
std::unique_ptr<Device> wrapped(Device& inner) {
  auto made = WholeBlocks::make(std::make_unique<ForwardingDevice>(inner));
  return made ? *std::move(made) : nullptr;
}

TEST(WholeBlocksTest, ABlockThatWasBegunIsFilledWithZeros) {
  MemoryDevice memory(sectors({4 * kSectors, 4 * kSectors + 5, 4 * kSectors}));
  ASSERT_EQ(append(memory, {BandId{0}, 0}, (kSectors + 3) * kSector, 7), ok());
  ASSERT_EQ(append(memory, {BandId{1}, 0}, (4 * kSectors + 2) * kSector, 7), ok());
  const auto device = wrapped(memory);
  EXPECT_EQ(device->write_pointer(BandId{0}), 2u);
  EXPECT_EQ(memory.write_pointer(BandId{0}), 2 * kSectors);
  AlignedBuffer found(kBlockBytes), expected = filled(kBlockBytes, 0);
  std::fill_n(expected.data(), 3 * kSector, std::byte{7});
  ASSERT_EQ(device->read({BandId{0}, 1}, found.span()), ok());
  EXPECT_TRUE(std::ranges::equal(found.span(), expected.span()));
  EXPECT_EQ(device->report(BandId{1})->condition, BandCondition::kFull);
  EXPECT_EQ(memory.write_pointer(BandId{1}), 4 * kSectors + 2) << "there is no further block";
  EXPECT_EQ(memory.write_pointer(BandId{2}), 0u);
}

TEST(WholeBlocksTest, ABlockThatCannotBeFilledLeavesTheOtherBandsUsable) {
  MemoryDevice memory(sectors({4 * kSectors, 4 * kSectors}));
  for (const std::uint32_t band : {0u, 1u}) {
    ASSERT_EQ(append(memory, {BandId{band}, 0}, (kSectors + 3) * kSector, 7), ok());
  }
  FaultyDevice faulty(memory);
  faulty.fail_nth(Call::kAppend, 1, {Errc::kDeviceWrite});
  const auto device = wrapped(faulty);
  ASSERT_TRUE(device);
  EXPECT_EQ(device->write_pointer(BandId{0}), 1u);
  EXPECT_EQ(append(*device, {BandId{0}, 1}, kBlockBytes, 7), fail(Errc::kBandFailed));
  EXPECT_EQ(append(*device, {BandId{1}, 2}, kBlockBytes, 7), ok());
  ASSERT_EQ(device->reset(BandId{0}), ok());
  EXPECT_EQ(append(*device, {BandId{0}, 0}, kBlockBytes, 7), ok());
}

TEST(WholeBlocksTest, AReadOnlyDeviceIsLeftAsItIs) {
  Capabilities capabilities{.set_write_pointer = true, .read_only = true};
  MemoryDevice memory(sectors({4 * kSectors}), capabilities);
  memory.place_write_pointer(BandId{0}, kSectors + 3);
  const auto device = wrapped(memory);
  EXPECT_EQ(device->write_pointer(BandId{0}), 1u);
  EXPECT_EQ(memory.write_pointer(BandId{0}), kSectors + 3);
  AlignedBuffer two(2 * kBlockBytes);
  EXPECT_EQ(device->read({BandId{0}, 0}, two.span()), fail(Errc::kPastWritePointer));
}

TEST(WholeBlocksTest, ABandThatIsSmallerThanABlockIsRefused) {
  MemoryDevice memory(sectors({4 * kSectors, kSectors - 1}));
  const auto made = WholeBlocks::make(std::make_unique<ForwardingDevice>(memory));
  EXPECT_EQ(made ? Errc::kUnsupported : made.error(), Errc::kBandTooSmall);
}

TEST(WholeBlocksTest, ALaterPartOfALinkHasNoBlocks) {
  MemoryDevice memory(sectors({8 * kSectors, 0, 4 * kSectors}));
  const auto device = wrapped(memory);
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->geometry().band_blocks, (std::vector<std::uint32_t>{8, 0, 4}));
}

TEST(WholeBlocksTest, AWornOutBandIsReportedAsSuch) {
  MemoryDevice memory(sectors({4 * kSectors, 4 * kSectors}));
  ASSERT_EQ(append(memory, {BandId{0}, 0}, kBlockBytes, 7), ok());
  memory.retire(BandId{0}, BandCondition::kReadOnly);
  memory.retire(BandId{1}, BandCondition::kOffline);
  const auto device = wrapped(memory);
  EXPECT_EQ(device->report(BandId{0})->condition, BandCondition::kReadOnly);
  EXPECT_EQ(device->report(BandId{0})->write_pointer, 1u);
  EXPECT_EQ(device->report(BandId{1})->condition, BandCondition::kOffline);
}

TEST(WholeBlocksTest, PartsOfBlocksAreRefused) {
  MemoryDevice memory(sectors({4 * kSectors}));
  const auto device = wrapped(memory);
  EXPECT_EQ(append(*device, {BandId{0}, 0}, kSector, 7), fail(Errc::kBadAlignment));
  EXPECT_EQ(memory.write_pointer(BandId{0}), 0u);
  ASSERT_EQ(append(*device, {BandId{0}, 0}, kBlockBytes, 7), ok());
  AlignedBuffer sector(kSector);
  EXPECT_EQ(device->read({BandId{0}, 0}, sector.span()), fail(Errc::kBadAlignment));
}

TEST(WholeBlocksTest, PlacesThatTheSmallBlocksCannotCountAreRefused) {
  MemoryDevice memory(sectors({4 * kSectors}));
  const auto device = wrapped(memory);
  ASSERT_EQ(append(*device, {BandId{0}, 0}, kBlockBytes, 7), ok());
  constexpr std::uint32_t kWrapsToZero = UINT32_MAX / kSectors + 1;
  AlignedBuffer block(kBlockBytes);
  EXPECT_EQ(device->read({BandId{0}, kWrapsToZero}, block.span()), fail(Errc::kPastBandEnd));
  EXPECT_EQ(append(*device, {BandId{0}, kWrapsToZero + 1}, kBlockBytes, 7),
            fail(Errc::kNotAtWritePointer));
}

// Two bands that are written at random, on devices that lose their power.
class WholeBlocksPowerCutTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBlocks = 12;

  void flush(Device& device) {
    ASSERT_EQ(device.flush(), ok());
    flushed_ = written_;
  }
  void write_once(Device& device) {
    const auto band = static_cast<std::uint32_t>(random_() % 2);
    auto& blocks = written_[band];
    const std::size_t count = 1 + random_() % 3;
    if (blocks.size() + count > kBlocks) {
      ASSERT_EQ(device.reset(BandId{band}), ok());
      blocks.clear();
      flush(device);
    }
    const auto with = static_cast<unsigned>(1 + random_() % 250);
    const auto at = static_cast<std::uint32_t>(blocks.size());
    ASSERT_EQ(append(device, {BandId{band}, at}, count * kBlockBytes, with), ok());
    blocks.insert(blocks.end(), count, with);
    if (random_() % 3 == 0) flush(device);
  }
  std::unique_ptr<MemoryDevice> cut_power(const RecordingDevice& recorded) {
    const Recording recording = recorded.recording();
    RandomChoice choice(random_());
    return after_power_cut(recording, recording.ops.size(), choice);
  }
  void expect_flushed(Device& device) {
    for (std::uint32_t band = 0; band < 2; ++band) {
      const std::uint32_t end = device.write_pointer(BandId{band}).value_or(0);
      ASSERT_GE(end, flushed_[band].size());
      ASSERT_LE(end, written_[band].size());
      for (std::uint32_t rba = 0; rba < flushed_[band].size(); ++rba) {
        AlignedBuffer found(kBlockBytes);
        ASSERT_EQ(device.read({BandId{band}, rba}, found.span()), ok());
        const AlignedBuffer expected = filled(kBlockBytes, flushed_[band][rba]);
        EXPECT_TRUE(std::ranges::equal(found.span(), expected.span())) << band << ' ' << rba;
      }
    }
  }

  std::mt19937_64 random_{test_seed()};
  std::array<std::vector<unsigned>, 2> written_, flushed_;  // what each block is filled with
};

// The second cut may lose or tear what make() has appended after the first one.
TEST_F(WholeBlocksPowerCutTest, FlushedBlocksSurviveTwoCutsInARow) {
  SCOPED_TRACE(seed_trace());
  for (int round = 0; round < 40 && !HasFailure(); ++round) {
    written_ = flushed_ = {};
    MemoryDevice memory(sectors({kBlocks * kSectors + 3, kBlocks * kSectors}));
    RecordingDevice recorded(memory);
    const auto device = wrapped(recorded);
    for (int step = 0; step < 30; ++step) write_once(*device);
    const auto after_first = cut_power(recorded);
    RecordingDevice second(*after_first);
    expect_flushed(*wrapped(second));
    const auto after_second = cut_power(second);
    const auto last = wrapped(*after_second);
    expect_flushed(*last);
    for (const BandId band : {BandId{0}, BandId{1}}) {
      EXPECT_EQ(after_second->write_pointer(band).value_or(1) % kSectors, 0u);
      const std::uint32_t end = last->write_pointer(band).value_or(0);
      EXPECT_TRUE(end == kBlocks || append(*last, {band, end}, kBlockBytes, 1));
    }
  }
}

TEST(WholeBlocksTest, GrowsByWholeBlocks) {
  MemoryDevice memory(sectors({4 * kSectors + 1, 4 * kSectors + 1}));
  memory.offer_bands(3);
  const auto device = wrapped(memory);
  ASSERT_EQ(device->grow(0), ok());
  EXPECT_EQ(device->geometry().band_blocks, std::vector<std::uint32_t>(5, 4));
}

}  // namespace
}  // namespace lazyfs::device
