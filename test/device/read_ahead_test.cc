#include "device/read_ahead.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/before_wait.h"
#include "base/buffer.h"
#include "base/large_pages.h"
#include "device/faulty.h"
#include "device/memory.h"
#include "test/support/result_printer.h"
#include "test/support/seed.h"

namespace lazyfs::device {
namespace {

constexpr BandId kFirstBand{1}, kSecondBand{2};
constexpr std::uint32_t kBlocks = 1024;
constexpr std::uint32_t kBands = 16;

AlignedBuffer blocks_with(std::uint32_t blocks, unsigned value) {
  AlignedBuffer bytes(std::size_t{blocks} * kBlockBytes);
  std::memset(bytes.data(), static_cast<int>(value), bytes.size());
  return bytes;
}

class ReadAheadTest : public testing::Test {
 protected:
  // Appends blocks that have `value` in each byte.
  void append(BandId band, std::uint32_t blocks, unsigned value) {
    const AlignedBuffer bytes = blocks_with(blocks, value);
    ASSERT_EQ(device_.append({band, *device_.write_pointer(band)}, Piece(bytes.span())), ok());
  }
  void expect_reads(BandAddress at, std::uint32_t blocks, unsigned value) {
    AlignedBuffer found(std::size_t{blocks} * kBlockBytes);
    ASSERT_EQ(device_.read(at, found.span()), ok());
    const AlignedBuffer wanted = blocks_with(blocks, value);
    EXPECT_EQ(std::memcmp(found.data(), wanted.data(), wanted.size()), 0) << at.rba;
  }
  // Small reads one after the other, so that those that follow are read ahead.
  void read_along(BandId band, std::uint32_t from, std::uint32_t to, unsigned value) {
    for (std::uint32_t rba = from; rba < to; rba += 2) expect_reads({band, rba}, 2, value);
  }
  std::uint64_t reads() const { return faulty_.calls(Call::kRead); }

  std::unique_ptr<MemoryDevice> memory_ = std::make_unique<MemoryDevice>(
      Geometry{.band_blocks = std::vector(kBands, kBlocks),
               .band_kinds = std::vector(kBands, BandKind::kShingled)},
      Capabilities{.set_write_pointer = true});
  FaultyDevice faulty_{*memory_};
  ReadAheadDevice device_{faulty_};
};

TEST_F(ReadAheadTest, SmallReadsAlongABandBecomeFew) {
  append(kFirstBand, kBlocks, 7);
  read_along(kFirstBand, 0, kBlocks, 7);
  EXPECT_LE(reads(), 20u) << "512 reads of two blocks";
}

TEST_F(ReadAheadTest, AThreadThatMustNotWaitGetsWhatWindowsHave) {
  append(kFirstBand, kBlocks, 7);
  const MustNotWait must_not_wait;
  AlignedBuffer found(kBlockBytes);
  EXPECT_EQ(device_.read({kFirstBand, 0}, found.span()), fail(Errc::kWouldWait));
  EXPECT_EQ(reads(), 0u);
  std::jthread([this] { read_along(kFirstBand, 0, 10, 7); }).join();
  const std::uint64_t before = reads();
  expect_reads({kFirstBand, 10}, 1, 7);
  AlignedBuffer longer(std::size_t{ReadAheadDevice::kMaxReadBlocks + 1} * kBlockBytes);
  EXPECT_EQ(device_.read({kFirstBand, 0}, longer.span()), fail(Errc::kWouldWait));
  EXPECT_EQ(reads(), before);
}

TEST_F(ReadAheadTest, WindowsTakeNoMoreMemoryThanStated) {
  constexpr std::size_t kBeingRead = kLargePageBytes;
  for (std::uint32_t band = 0; band < kBands; ++band) {
    append(BandId{band}, kBlocks, band);
    read_along(BandId{band}, 0, kBlocks, band);
  }
  EXPECT_GT(device_.held_bytes(), ReadAheadDevice::kMaxKeptBytes / 2);
  EXPECT_LE(device_.held_bytes(), ReadAheadDevice::kMaxKeptBytes + kBeingRead);
}

TEST_F(ReadAheadTest, ReadsThatJumpAreAnsweredOneByOne) {
  append(kFirstBand, kBlocks, 7);
  std::uint64_t blocks = 0;
  faulty_.fail_when([&](const CallInfo& call) -> std::optional<Fault> {
    if (call.call == Call::kRead) blocks += call.blocks;
    return std::nullopt;
  });
  for (std::uint32_t rba = 0; rba < kBlocks; rba += 100) expect_reads({kFirstBand, rba}, 1, 7);
  EXPECT_EQ(blocks, 11u) << "nothing was read with them";
}

TEST_F(ReadAheadTest, ForgetsTheCopiesOfOneBand) {
  append(kFirstBand, kBlocks, 7);
  append(kSecondBand, kBlocks, 8);
  read_along(kFirstBand, 0, 16, 7);
  read_along(kSecondBand, 0, 16, 8);
  std::uint64_t before = reads();
  expect_reads({kFirstBand, 14}, 2, 7);
  ASSERT_EQ(reads(), before) << "there is a copy to be forgotten";
  device_.forget_copies(kFirstBand);
  expect_reads({kSecondBand, 14}, 2, 8);
  EXPECT_EQ(reads(), before);
  expect_reads({kFirstBand, 14}, 2, 7);
  EXPECT_EQ(reads(), before + 1);
}

TEST_F(ReadAheadTest, ABlockThatIsReadAgainAndAgainIsReadFromTheDevice) {
  append(kFirstBand, kBlocks, 7);
  for (int i = 0; i < 10; ++i) expect_reads({kFirstBand, 100}, 1, 7);
  EXPECT_EQ(reads(), 10u);
}

TEST_F(ReadAheadTest, LongReadsPass) {
  append(kFirstBand, kBlocks, 7);
  for (std::uint32_t rba = 0; rba < 512; rba += 64) expect_reads({kFirstBand, rba}, 64, 7);
  EXPECT_EQ(reads(), 8u);
}

TEST_F(ReadAheadTest, AResetForgetsWhatWasRead) {
  append(kFirstBand, 64, 1);
  read_along(kFirstBand, 0, 32, 1);
  ASSERT_EQ(device_.reset(kFirstBand), ok());
  AlignedBuffer block = blocks_with(1, 0);
  EXPECT_EQ(device_.read({kFirstBand, 30}, block.span()), fail(Errc::kPastWritePointer));
  append(kFirstBand, 64, 2);
  read_along(kFirstBand, 0, 64, 2);
}

TEST_F(ReadAheadTest, AMovedWritePointerForgetsWhatWasRead) {
  append(kFirstBand, 64, 1);
  read_along(kFirstBand, 0, 64, 1);
  ASSERT_EQ(device_.set_write_pointer(kFirstBand, 40), ok());
  append(kFirstBand, 24, 2);
  read_along(kFirstBand, 0, 40, 1);
  read_along(kFirstBand, 40, 64, 2);
}

TEST_F(ReadAheadTest, ResetsLeaveRoomForWindows) {
  for (int i = 0; i < 20; ++i) {
    append(kFirstBand, kBlocks, 7);
    read_along(kFirstBand, 0, kBlocks, 7);
    ASSERT_EQ(device_.reset(kFirstBand), ok());
  }
  append(kFirstBand, kBlocks, 7);
  read_along(kFirstBand, 0, 64, 7);
  const std::uint64_t before = reads();
  expect_reads({kFirstBand, 60}, 2, 7);
  EXPECT_EQ(reads(), before) << "the window was kept";
}

// Calls `after_read` when it has read, before the caller has the blocks. Calls `before_move` before
// it moves a write pointer.
class HookedDevice final : public ForwardingDevice {
 public:
  using Device::append;
  using ForwardingDevice::ForwardingDevice;
  Result<> read(BandAddress from, std::span<std::byte> to) override {
    const auto done = ForwardingDevice::read(from, to);
    if (after_read) after_read(to.size() / kBlockBytes);
    return done;
  }
  Result<> reset(BandId band) override {
    if (before_move) before_move();
    return ForwardingDevice::reset(band);
  }
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override {
    if (before_move) before_move();
    return ForwardingDevice::set_write_pointer(band, rba);
  }
  std::function<void(std::size_t blocks)> after_read;
  std::function<void()> before_move;
};

TEST_F(ReadAheadTest, AWindowThatWasReadDuringAResetIsNotKept) {
  HookedDevice hooked(faulty_);
  ReadAheadDevice device(hooked);
  append(kFirstBand, 64, 1);
  bool done = false;
  hooked.after_read = [&](std::size_t blocks) {
    if (blocks < 8 || done) return;
    done = true;
    EXPECT_EQ(device.reset(kFirstBand), ok());
    append(kFirstBand, 64, 2);
  };
  AlignedBuffer block = blocks_with(1, 0);
  std::uint32_t rba = 0;
  for (; !done; ++rba) ASSERT_EQ(device.read({kFirstBand, rba}, block.span()), ok());
  ASSERT_LT(rba, 32u);
  for (; rba < 64; ++rba) {
    ASSERT_EQ(device.read({kFirstBand, rba}, block.span()), ok());
    ASSERT_EQ(block.data()[0], std::byte{2}) << rba;
  }
}

TEST_F(ReadAheadTest, WhatIsReadWhileAWritePointerMovesIsForgotten) {
  HookedDevice hooked(faulty_);
  ReadAheadDevice device(hooked);
  AlignedBuffer block = blocks_with(1, 0);
  const auto value_at = [&](std::uint32_t rba) {
    EXPECT_EQ(device.read({kFirstBand, rba}, block.span()), ok());
    return static_cast<unsigned>(block.data()[0]);
  };
  hooked.before_move = [&] {
    for (std::uint32_t rba = 0; rba < 64; ++rba) value_at(rba);
  };
  append(kFirstBand, 64, 1);
  ASSERT_EQ(device.reset(kFirstBand), ok());
  append(kFirstBand, 64, 2);
  EXPECT_EQ(value_at(40), 2u);
  ASSERT_EQ(device.set_write_pointer(kFirstBand, 0), ok());
  append(kFirstBand, 64, 3);
  EXPECT_EQ(value_at(40), 3u);
}

TEST_F(ReadAheadTest, AConventionalBandIsReadFromTheDevice) {
  constexpr std::uint32_t kFew = 64;
  MemoryDevice memory(
      {.band_blocks = {kFew, kFew, kFew},
       .band_kinds = {BandKind::kShingled, BandKind::kShingled, BandKind::kConventional}});
  ReadAheadDevice device(memory);
  const BandId band{2};
  for (const unsigned value : {1u, 2u}) {
    const AlignedBuffer written = blocks_with(kFew, value);
    ASSERT_EQ(device.append({band, 0}, Piece(written.span())), ok());
    AlignedBuffer block = blocks_with(1, 0);
    for (std::uint32_t rba = 0; rba < kFew; ++rba) {
      ASSERT_EQ(device.read({band, (rba + 40) % kFew}, block.span()), ok());
      ASSERT_EQ(block.data()[0], static_cast<std::byte>(value)) << rba;
    }
  }
}

TEST_F(ReadAheadTest, AnUnreadableNeighbourDoesNoHarm) {
  append(kFirstBand, 64, 7);
  faulty_.fail_when([](const CallInfo& call) -> std::optional<Fault> {
    const std::uint32_t bad = 40;
    const std::uint64_t end = call.at.rba + call.blocks;
    const bool hits = call.call == Call::kRead && call.at.rba <= bad && bad < end;
    return hits ? std::optional(Fault{Errc::kDeviceRead}) : std::nullopt;
  });
  read_along(kFirstBand, 0, 40, 7);
  AlignedBuffer block = blocks_with(1, 0);
  EXPECT_EQ(device_.read({kFirstBand, 40}, block.span()), fail(Errc::kDeviceRead));
  expect_reads({kFirstBand, 41}, 1, 7);
  read_along(kFirstBand, 42, 64, 7);
}

TEST_F(ReadAheadTest, NothingIsReadPastTheWritePointer) {
  append(kFirstBand, 9, 7);
  for (std::uint32_t rba = 0; rba < 9; ++rba) expect_reads({kFirstBand, rba}, 1, 7);
  AlignedBuffer block = blocks_with(1, 0);
  EXPECT_EQ(device_.read({kFirstBand, 9}, block.span()), fail(Errc::kPastWritePointer));
  append(kFirstBand, 3, 8);
  expect_reads({kFirstBand, 8}, 1, 7);
  expect_reads({kFirstBand, 9}, 3, 8);
}

TEST_F(ReadAheadTest, ReadsWhatTheInnerDeviceHasWhateverHappened) {
  std::mt19937_64 random(test_seed());
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random() % n); };
  for (int i = 0; i < 20'000; ++i) {
    const BandId band = below(2) != 0 ? kFirstBand : kSecondBand;
    const std::uint32_t end = *device_.write_pointer(band);
    const std::uint32_t what = below(100);
    if (what < 10 && end < kBlocks) {
      append(band, 1 + below(std::min<std::uint32_t>(40, kBlocks - end)), below(256));
    } else if (what == 10) {
      ASSERT_EQ(device_.reset(band), ok());
    } else if (what == 11) {
      ASSERT_EQ(device_.set_write_pointer(band, below(end + 1)), ok());
    } else if (end > 0) {
      std::uint32_t rba = below(end);
      for (std::uint32_t n = below(12); n > 0 && rba < end; --n) {
        const std::uint32_t blocks = 1 + below(std::min<std::uint32_t>(4, end - rba));
        AlignedBuffer found(std::size_t{blocks} * kBlockBytes), wanted(found.size());
        ASSERT_EQ(device_.read({band, rba}, found.span()), ok());
        ASSERT_EQ(memory_->read({band, rba}, wanted.span()), ok());
        ASSERT_EQ(std::memcmp(found.data(), wanted.data(), found.size()), 0) << "step " << i;
        rba += blocks + below(8);
      }
    }
  }
}

}  // namespace
}  // namespace lazyfs::device
