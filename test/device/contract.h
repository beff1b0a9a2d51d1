// One suite of tests for the contract of banded devices (device/device.h). A test program runs it
// on its devices with
//
//   INSTANTIATE_TEST_SUITE_P(Memory, DeviceContract, testing::Values(Subject{...}), subject_name);
//
// The tests of this header are then part of that program.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "device/device.h"
#include "test/support/result_printer.h"

namespace lazyfs::device {

// The device under test and the resources that it needs.
class Bench {
 public:
  virtual ~Bench() = default;
  virtual Device& device() = 0;
  // Closes the device and opens it again. Returns false if the contents do not survive the device.
  virtual bool reopen(bool /*read_only*/) { return false; }
};

struct Subject {
  std::string name;
  // Makes a device with at least four shingled bands and at most one conventional band. The
  // shingled bands are empty; without keeps_write_pointers they are new, and their ends unknown.
  // Each shingled band has at least 8 blocks, one has at least kManyBlocks. Returns null if this
  // machine cannot make the device.
  std::function<std::unique_ptr<Bench>()> make;
};

inline void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name; }
inline std::string subject_name(const testing::TestParamInfo<Subject>& info) {
  return info.param.name;
}

inline constexpr std::uint32_t kManyBlocks = 1100;  // more pieces than one system call accepts

// The geometry for subjects that support any geometry.
inline Geometry contract_geometry() {
  return {.band_blocks = {16, 16, 8, 32, 16, kManyBlocks},
          .band_kinds = {BandKind::kShingled, BandKind::kConventional, BandKind::kShingled,
                         BandKind::kShingled, BandKind::kShingled, BandKind::kShingled}};
}

class DeviceContract : public testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    bench_ = GetParam().make();
    ASSERT_FALSE(HasFailure()) << "no device";  // a test that has failed cannot be skipped
    if (!bench_) GTEST_SKIP() << "this machine cannot make a " << GetParam().name;
    block_bytes_ = device().geometry().block_bytes;
    for (std::uint32_t i = 0; i < device().geometry().band_count(); ++i) {
      if (device().geometry().band_blocks[i] == 0) continue;  // a later part of a link
      const bool is_shingled = device().geometry().band_kinds[i] == BandKind::kShingled;
      (is_shingled ? shingled_ : conventional_).push_back(BandId{i});
    }
    ASSERT_GE(shingled_.size(), 4u);
    if (keeps_pointers()) return;
    for (BandId id : shingled_) expect_unknown_end(id);
    ASSERT_EQ(device().reset_all(), ok());
  }
  bool keeps_pointers() { return device().capabilities().keeps_write_pointers; }
  void expect_unknown_end(BandId id) {
    const BandReport expected{.condition = BandCondition::kFull,
                              .blocks = size_of(id),
                              .write_pointer = size_of(id)};
    EXPECT_EQ(device().report(id), expected);
    EXPECT_EQ(pointer(id), size_of(id));
    EXPECT_EQ(read(id, size_of(id) - 1, 1), ok());
    EXPECT_EQ(append(id, 0, 1), fail(Errc::kNotAtWritePointer));
    EXPECT_EQ(append(id, size_of(id), 1), fail(Errc::kPastBandEnd));
  }

  Device& device() { return bench_->device(); }
  BandId band(std::size_t i) const { return shingled_[i]; }
  std::uint32_t size_of(BandId id) { return device().geometry().blocks_of(id); }

  // Returns blocks in which every byte depends on `seed` and its offset.
  AlignedBuffer pattern(std::uint32_t blocks, unsigned seed) const {
    AlignedBuffer buffer(std::size_t{blocks} * block_bytes_);
    for (std::size_t i = 0; i < buffer.size(); ++i) {
      buffer.data()[i] = static_cast<std::byte>(i * 7 + i / block_bytes_ * 13 + seed);
    }
    return buffer;
  }
  Result<> append(BandId id, std::uint32_t rba, std::uint32_t blocks, unsigned seed = 1) {
    const AlignedBuffer bytes = pattern(blocks, seed);
    return device().append({id, rba}, Piece(bytes.span()));
  }
  Result<> read(BandId id, std::uint32_t rba, std::uint32_t blocks) {
    AlignedBuffer buffer(std::size_t{blocks} * block_bytes_);
    return device().read({id, rba}, buffer.span());
  }
  void expect_holds(BandId id, std::uint32_t rba, const AlignedBuffer& bytes) {
    AlignedBuffer found(bytes.size());
    ASSERT_EQ(device().read({id, rba}, found.span()), ok());
    EXPECT_EQ(std::memcmp(found.data(), bytes.data(), bytes.size()), 0) << "band " << id.value;
  }
  void expect_holds(BandId id, std::uint32_t rba, std::uint32_t blocks, unsigned seed) {
    expect_holds(id, rba, pattern(blocks, seed));
  }
  std::uint32_t pointer(BandId id) { return device().write_pointer(id).value_or(UINT32_MAX); }
  BandCondition condition(BandId id) {
    return device().report(id).value_or(BandReport{.condition = BandCondition::kOffline}).condition;
  }
  BandId no_band() { return BandId{device().geometry().band_count()}; }

  std::unique_ptr<Bench> bench_;
  std::vector<BandId> shingled_, conventional_;
  std::uint32_t block_bytes_ = 0;
};

TEST_P(DeviceContract, StartsWithEveryShingledBandEmpty) {
  if (!keeps_pointers()) GTEST_SKIP() << "its ends are unknown; SetUp() has reset the bands";
  for (BandId id : shingled_) {
    const BandReport expected{.condition = BandCondition::kEmpty, .blocks = size_of(id)};
    EXPECT_EQ(device().report(id), expected);
    EXPECT_EQ(pointer(id), 0u);
  }
  EXPECT_FALSE(device().name().empty());
}

TEST_P(DeviceContract, ReadsBackWhatWasAppended) {
  ASSERT_EQ(append(band(0), 0, 3, 5), ok());
  ASSERT_EQ(append(band(0), 3, 2, 9), ok());
  expect_holds(band(0), 0, 3, 5);
  expect_holds(band(0), 3, 2, 9);
  EXPECT_EQ(pointer(band(0)), 5u);
  EXPECT_EQ(condition(band(0)), BandCondition::kOpen);
  EXPECT_EQ(pointer(band(1)), 0u);
}

TEST_P(DeviceContract, WritesPiecesInSequence) {
  const AlignedBuffer first = pattern(4, 1), second = pattern(2, 2);
  const std::vector<Piece> pieces = {
      Piece(second.span()).first(block_bytes_), Piece(first.span()).first(2 * block_bytes_),
      Piece(first.span()).subspan(2 * block_bytes_),  // adjacent in memory to the piece before
      Piece(), Piece(second.span()).subspan(block_bytes_)};
  ASSERT_EQ(device().append({band(0), 0}, pieces), ok());
  EXPECT_EQ(pointer(band(0)), 6u);
  AlignedBuffer expected(6 * std::size_t{block_bytes_});
  std::memcpy(expected.data(), second.data(), block_bytes_);
  std::memcpy(expected.data() + block_bytes_, first.data(), 4 * block_bytes_);
  std::memcpy(expected.data() + 5 * block_bytes_, second.data() + block_bytes_, block_bytes_);
  expect_holds(band(0), 0, expected);
}

TEST_P(DeviceContract, AcceptsMorePiecesThanOneSystemCall) {
  const BandId large = shingled_.back();
  ASSERT_GE(size_of(large), kManyBlocks);
  const AlignedBuffer bytes = pattern(2 * kManyBlocks, 3);
  std::vector<Piece> pieces;  // every second block, so that no two are adjacent
  AlignedBuffer expected(std::size_t{kManyBlocks} * block_bytes_);
  for (std::uint32_t i = 0; i < kManyBlocks; ++i) {
    pieces.push_back(Piece(bytes.span()).subspan(2ull * i * block_bytes_, block_bytes_));
    std::memcpy(expected.data() + std::size_t{i} * block_bytes_, pieces.back().data(),
                block_bytes_);
  }
  ASSERT_EQ(device().append({large, 0}, pieces), ok());
  EXPECT_EQ(pointer(large), kManyBlocks);
  expect_holds(large, 0, expected);
}

TEST_P(DeviceContract, RefusesAppendsAwayFromTheWritePointer) {
  EXPECT_EQ(append(band(0), 1, 1), fail(Errc::kNotAtWritePointer));
  ASSERT_EQ(append(band(0), 0, 2), ok());
  EXPECT_EQ(append(band(0), 0, 1), fail(Errc::kNotAtWritePointer));
  EXPECT_EQ(append(band(0), 1, 1), fail(Errc::kNotAtWritePointer));
  EXPECT_EQ(append(band(0), 3, 1), fail(Errc::kNotAtWritePointer));
  EXPECT_EQ(append(band(0), UINT32_MAX, 1), fail(Errc::kNotAtWritePointer));
  EXPECT_EQ(pointer(band(0)), 2u);
}

TEST_P(DeviceContract, FillsABandToItsLastBlockAndNotFurther) {
  const std::uint32_t blocks = size_of(band(1));
  ASSERT_EQ(append(band(1), 0, blocks - 1, 4), ok());
  EXPECT_EQ(append(band(1), blocks - 1, 2), fail(Errc::kPastBandEnd));
  EXPECT_EQ(pointer(band(1)), blocks - 1);
  ASSERT_EQ(append(band(1), blocks - 1, 1, 6), ok());
  EXPECT_EQ(condition(band(1)), BandCondition::kFull);
  EXPECT_EQ(append(band(1), blocks, 1), fail(Errc::kPastBandEnd));
  expect_holds(band(1), 0, blocks - 1, 4);
  expect_holds(band(1), blocks - 1, 1, 6);
  EXPECT_EQ(pointer(band(2)), 0u);
}

TEST_P(DeviceContract, RefusesToReadAtTheWritePointerAndPastIt) {
  EXPECT_EQ(read(band(0), 0, 1), fail(Errc::kPastWritePointer));
  ASSERT_EQ(append(band(0), 0, 3), ok());
  EXPECT_EQ(read(band(0), 2, 1), ok());
  EXPECT_EQ(read(band(0), 3, 1), fail(Errc::kPastWritePointer));
  EXPECT_EQ(read(band(0), 2, 2), fail(Errc::kPastWritePointer));
  EXPECT_EQ(read(band(0), 4, 1), fail(Errc::kPastWritePointer));
}

TEST_P(DeviceContract, RefusesToReadPastTheEndOfTheBand) {
  const std::uint32_t blocks = size_of(band(0));
  ASSERT_EQ(append(band(0), 0, blocks), ok());
  ASSERT_EQ(append(band(1), 0, 1), ok());
  EXPECT_EQ(read(band(0), blocks - 1, 1), ok());
  EXPECT_EQ(read(band(0), blocks - 1, 2), fail(Errc::kPastBandEnd));
  EXPECT_EQ(read(band(0), blocks, 1), fail(Errc::kPastBandEnd));
  EXPECT_EQ(read(band(0), UINT32_MAX, 1), fail(Errc::kPastBandEnd));
}

TEST_P(DeviceContract, RefusesABandNumberPastTheLast) {
  for (const BandId id : {no_band(), BandId{UINT32_MAX}}) {
    EXPECT_EQ(read(id, 0, 1), fail(Errc::kBadBand));
    EXPECT_EQ(append(id, 0, 1), fail(Errc::kBadBand));
    EXPECT_EQ(device().write_pointer(id), fail(Errc::kBadBand));
    EXPECT_EQ(device().set_write_pointer(id, 0), fail(Errc::kBadBand));
    EXPECT_EQ(device().reset(id), fail(Errc::kBadBand));
    EXPECT_EQ(device().discard(id), fail(Errc::kBadBand));
    EXPECT_EQ(device().report(id), fail(Errc::kBadBand));
  }
}

TEST_P(DeviceContract, RefusesPartialOrUnalignedBlocks) {
  AlignedBuffer buffer = pattern(3, 1);
  ASSERT_EQ(device().append({band(0), 0}, Piece(buffer.span())), ok());
  const auto odd_length = buffer.span().first(block_bytes_ + 1);
  const auto odd_place = buffer.span().subspan(8, block_bytes_);
  for (const auto& bytes : {odd_length, odd_place}) {
    EXPECT_EQ(device().append({band(0), 3}, Piece(bytes)), fail(Errc::kBadAlignment));
    EXPECT_EQ(device().read({band(0), 0}, bytes), fail(Errc::kBadAlignment));
  }
  const std::vector<Piece> pieces = {Piece(buffer.span()).first(block_bytes_), Piece(odd_length)};
  EXPECT_EQ(device().append({band(0), 3}, pieces), fail(Errc::kBadAlignment));
  EXPECT_EQ(pointer(band(0)), 3u);
}

TEST_P(DeviceContract, AcceptsEmptyReadsAndAppends) {
  EXPECT_EQ(device().append({band(0), 0}, std::span<const Piece>()), ok());
  EXPECT_EQ(device().read({band(0), 0}, {}), ok());
  EXPECT_EQ(pointer(band(0)), 0u);
  EXPECT_EQ(append(band(0), 1, 0), fail(Errc::kNotAtWritePointer));
}

TEST_P(DeviceContract, SetsAWritePointerBackAndNeverForward) {
  if (!device().capabilities().set_write_pointer) {
    EXPECT_EQ(device().set_write_pointer(band(0), 0), fail(Errc::kUnsupported));
    return;
  }
  ASSERT_EQ(append(band(0), 0, 6, 1), ok());
  EXPECT_EQ(device().set_write_pointer(band(0), 7), fail(Errc::kPastWritePointer));
  EXPECT_EQ(device().set_write_pointer(band(0), 6), ok());
  ASSERT_EQ(device().set_write_pointer(band(0), 2), ok());
  EXPECT_EQ(pointer(band(0)), 2u);
  EXPECT_EQ(read(band(0), 2, 1), fail(Errc::kPastWritePointer));
  expect_holds(band(0), 0, 2, 1);
  ASSERT_EQ(append(band(0), 2, 2, 8), ok());
  expect_holds(band(0), 2, 2, 8);
  ASSERT_EQ(device().set_write_pointer(band(0), 0), ok());
  EXPECT_EQ(condition(band(0)), BandCondition::kEmpty);
}

TEST_P(DeviceContract, ResetsABandAndWritesItAgain) {
  const std::uint32_t blocks = size_of(band(0));
  ASSERT_EQ(append(band(0), 0, blocks, 1), ok());
  ASSERT_EQ(append(band(1), 0, 2, 2), ok());
  ASSERT_EQ(device().reset(band(0)), ok());
  EXPECT_EQ(condition(band(0)), BandCondition::kEmpty);
  EXPECT_EQ(read(band(0), 0, 1), fail(Errc::kPastWritePointer));
  ASSERT_EQ(device().flush(), ok());
  ASSERT_EQ(append(band(0), 0, blocks, 3), ok());
  expect_holds(band(0), 0, blocks, 3);
  expect_holds(band(1), 0, 2, 2);
  EXPECT_EQ(device().reset(band(0)), ok());
  EXPECT_EQ(device().reset(band(0)), ok());  // an empty band too
}

TEST_P(DeviceContract, ResetsAllShingledBandsAtOnce) {
  for (BandId id : shingled_) {
    ASSERT_EQ(append(id, 0, 1), ok());
    device().seal(id);  // there may be more than the device allows to be open
  }
  ASSERT_EQ(device().reset_all(), ok());
  for (BandId id : shingled_) EXPECT_EQ(pointer(id), 0u);
}

TEST_P(DeviceContract, KeepsItsLimitOfPartlyWrittenBands) {
  const std::uint32_t limit = device().capabilities().max_open_bands;
  if (limit == 0 || limit >= shingled_.size()) GTEST_SKIP() << "it has no limit, or fewer bands";
  for (std::uint32_t i = 0; i < limit; ++i) ASSERT_EQ(append(band(i), 0, 2, i), ok());
  const BandId next = band(limit);
  EXPECT_EQ(append(next, 0, 1), fail(Errc::kTooManyOpenBands));
  EXPECT_EQ(pointer(next), 0u);
  EXPECT_EQ(append(band(0), 2, 1, 0), ok());
  device().seal(band(1));
  expect_holds(band(1), 0, 2, 1);
  ASSERT_EQ(append(next, 0, 2, 9), ok());
  EXPECT_EQ(pointer(band(1)), size_of(band(1)));
  expect_holds(band(1), 0, 2, 1);
  ASSERT_EQ(device().reset(band(1)), ok());
  EXPECT_EQ(append(band(1), 0, 1), fail(Errc::kTooManyOpenBands));
  ASSERT_EQ(append(band(0), 3, size_of(band(0)) - 3), ok());  // a full one is not open
  ASSERT_EQ(append(band(1), 0, 1), ok());
}

TEST_P(DeviceContract, DiscardsAnEmptyBandAndNoOther) {
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(append(band(i), 0, size_of(band(i)), static_cast<unsigned>(i)), ok());
  }
  ASSERT_EQ(device().reset(band(1)), ok());
  const auto bytes = device().discard(band(1));
  const bool discards = device().capabilities().discards;
  EXPECT_TRUE(discards || bytes == fail(Errc::kUnsupported));
  if (bytes == fail(Errc::kUnsupported)) GTEST_SKIP() << "the medium takes no discards";
  EXPECT_EQ(bytes, std::uint64_t{size_of(band(1))} * block_bytes_);
  EXPECT_EQ(pointer(band(1)), 0u);
  ASSERT_EQ(append(band(1), 0, 3, 7), ok());
  expect_holds(band(1), 0, 3, 7);
  EXPECT_EQ(device().discard(band(1)), 0u) << "it is not empty";
  expect_holds(band(1), 0, 3, 7);
  expect_holds(band(0), 0, size_of(band(0)), 0);
  expect_holds(band(2), 0, size_of(band(2)), 2);
}

TEST_P(DeviceContract, DiscardsABandWhoseEndIsUnknown) {
  if (keeps_pointers()) GTEST_SKIP() << "the device keeps the write pointers";
  ASSERT_EQ(append(band(0), 0, 2, 1), ok());
  ASSERT_EQ(append(band(1), 0, 2, 2), ok());
  ASSERT_EQ(device().flush(), ok());
  if (!bench_->reopen(false)) GTEST_SKIP() << "nothing outlives this device";
  const auto bytes = device().discard(band(0));
  if (bytes == fail(Errc::kUnsupported)) GTEST_SKIP() << "the medium takes no discards";
  EXPECT_EQ(bytes, std::uint64_t{size_of(band(0))} * block_bytes_);
  expect_unknown_end(band(0));
  expect_holds(band(1), 0, 2, 2);
  ASSERT_EQ(device().set_write_pointer(band(1), 2), ok());
  EXPECT_EQ(device().discard(band(1)), 0u);
}

TEST_P(DeviceContract, AnAppendDuringADiscardIsNotLost) {
  const BandId large = shingled_.back();
  std::atomic<bool> is_over = false;
  std::vector<std::jthread> discarding;
  for (int i = 0; i < 2; ++i) {
    discarding.emplace_back([&] {
      while (!is_over) ignore_error(device().discard(large), "advice");
    });
  }
  for (unsigned round = 0; round < 40; ++round) {
    EXPECT_EQ(append(large, 0, 8, round), ok());
    expect_holds(large, 0, 8, round);
    EXPECT_EQ(device().reset(large), ok());
  }
  is_over = true;
}

TEST_P(DeviceContract, WritesAConventionalBandAnywhere) {
  if (conventional_.empty()) GTEST_SKIP() << "the device has no conventional band";
  const BandId id = conventional_.front();
  const std::uint32_t blocks = size_of(id);
  EXPECT_EQ(pointer(id), blocks);
  EXPECT_EQ(device().report(id)->kind, BandKind::kConventional);
  ASSERT_EQ(append(id, blocks - 2, 2, 1), ok());
  ASSERT_EQ(append(id, 0, 3, 2), ok());
  ASSERT_EQ(append(id, 1, 1, 3), ok());
  expect_holds(id, blocks - 2, 2, 1);
  expect_holds(id, 1, 1, 3);
  EXPECT_EQ(read(id, 0, blocks), ok());
  EXPECT_EQ(append(id, blocks - 1, 2), fail(Errc::kPastBandEnd));
  EXPECT_EQ(read(id, blocks - 1, 2), fail(Errc::kPastBandEnd));
  EXPECT_EQ(device().reset(id), fail(Errc::kUnsupported));
  EXPECT_EQ(device().discard(id), fail(Errc::kUnsupported));
  EXPECT_EQ(device().set_write_pointer(id, 0), fail(Errc::kUnsupported));
}

TEST_P(DeviceContract, FlushesWithoutEarlierWrites) {
  EXPECT_EQ(device().flush(), ok());
  EXPECT_EQ(device().flush(), ok());
  ASSERT_EQ(append(band(0), 0, 1), ok());
  EXPECT_EQ(device().flush(), ok());
  EXPECT_EQ(device().flush(), ok());
}

TEST_P(DeviceContract, KeepsFlushedData) {
  ASSERT_EQ(append(band(0), 0, 5, 1), ok());
  ASSERT_EQ(append(band(1), 0, size_of(band(1)), 2), ok());
  ASSERT_EQ(append(band(2), 0, 4, 3), ok());
  ASSERT_EQ(device().flush(), ok());
  ASSERT_EQ(device().reset(band(2)), ok());
  ASSERT_EQ(append(band(2), 0, 1, 4), ok());
  ASSERT_EQ(append(band(0), 5, 1, 5), ok());
  ASSERT_EQ(device().flush(), ok());
  const Geometry geometry = device().geometry();
  if (!bench_->reopen(false)) GTEST_SKIP() << "nothing outlives this device";
  EXPECT_EQ(device().geometry(), geometry);
  expect_holds(band(0), 0, 5, 1);
  expect_holds(band(0), 5, 1, 5);
  expect_holds(band(1), 0, size_of(band(1)), 2);
  expect_holds(band(2), 0, 1, 4);
  if (keeps_pointers()) {
    EXPECT_EQ(pointer(band(0)), 6u);
    EXPECT_EQ(pointer(band(2)), 1u);
    EXPECT_EQ(pointer(band(3)), 0u);
  } else {
    for (BandId id : shingled_) expect_unknown_end(id);
    ASSERT_EQ(device().set_write_pointer(band(0), 6), ok());
  }
  ASSERT_EQ(append(band(0), 6, 1, 7), ok());
}

TEST_P(DeviceContract, TheHostStatesEachUnknownEndOnce) {
  if (keeps_pointers()) GTEST_SKIP() << "the device keeps the write pointers";
  ASSERT_EQ(append(band(0), 0, 5, 1), ok());
  ASSERT_EQ(append(band(1), 0, 5, 2), ok());
  ASSERT_EQ(device().flush(), ok());
  if (!bench_->reopen(false)) GTEST_SKIP() << "nothing outlives this device";
  EXPECT_FALSE(device().capabilities().set_write_pointer);
  EXPECT_EQ(device().set_write_pointer(band(0), size_of(band(0)) + 1),
            fail(Errc::kPastWritePointer));
  ASSERT_EQ(device().set_write_pointer(band(0), 5), ok());
  EXPECT_EQ(pointer(band(0)), 5u);
  EXPECT_EQ(condition(band(0)), BandCondition::kOpen);
  expect_holds(band(0), 0, 5, 1);
  EXPECT_EQ(read(band(0), 5, 1), fail(Errc::kPastWritePointer));
  EXPECT_EQ(device().set_write_pointer(band(0), 5), fail(Errc::kUnsupported)) << "known by now";
  ASSERT_EQ(append(band(0), 5, 1, 3), ok());
  ASSERT_EQ(device().reset(band(1)), ok());
  EXPECT_EQ(device().set_write_pointer(band(1), 0), fail(Errc::kUnsupported));
  ASSERT_EQ(append(band(1), 0, 2, 4), ok());
  expect_holds(band(1), 0, 2, 4);
  ASSERT_EQ(device().set_write_pointer(band(2), size_of(band(2))), ok());
  EXPECT_EQ(condition(band(2)), BandCondition::kFull);
}

TEST_P(DeviceContract, ChangesNothingWhenItIsOpenForReading) {
  ASSERT_EQ(append(band(0), 0, 2, 1), ok());
  ASSERT_EQ(device().flush(), ok());
  if (!bench_->reopen(true)) GTEST_SKIP() << "nothing outlives this device";
  EXPECT_TRUE(device().capabilities().read_only);
  EXPECT_EQ(append(band(0), 2, 1), fail(Errc::kDeviceReadOnly));
  EXPECT_EQ(device().reset(band(0)), fail(Errc::kDeviceReadOnly));
  EXPECT_EQ(device().discard(band(0)), fail(Errc::kDeviceReadOnly));
  EXPECT_EQ(device().set_write_pointer(band(0), 0), fail(Errc::kDeviceReadOnly));
  EXPECT_EQ(device().flush(), ok());
  expect_holds(band(0), 0, 2, 1);
  ASSERT_TRUE(bench_->reopen(false));
  EXPECT_EQ(pointer(band(0)), keeps_pointers() ? 2u : size_of(band(0)));
}

TEST_P(DeviceContract, ServesBandsFromManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (std::uint32_t round = 0; round < 20; ++round) {
        for (std::uint32_t rba = 0; rba < 8; rba += 2) {
          const auto seed = static_cast<unsigned>(i * 8 + rba + round);
          EXPECT_EQ(append(band(i), rba, 2, seed), ok());
          expect_holds(band(i), rba, 2, seed);
        }
        EXPECT_EQ(device().flush(), ok());
        EXPECT_EQ(pointer(band(i)), 8u);
        EXPECT_EQ(device().reset(band(i)), ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace lazyfs::device
