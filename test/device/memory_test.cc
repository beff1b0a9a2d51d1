// Properties of the device in memory beyond the contract.
#include "device/memory.h"

#include <gtest/gtest.h>

#include "test/support/result_printer.h"

namespace lazyfs::device {
namespace {

class MemoryDeviceTest : public testing::Test {
 protected:
  Result<> append(std::uint32_t rba) { return memory_->append({kBand, rba}, Piece(one_.span())); }
  Result<> read(std::uint32_t rba) { return memory_->read({kBand, rba}, one_.span()); }

  static constexpr BandId kBand{1};
  std::unique_ptr<MemoryDevice> memory_ = MemoryDevice::uniform(2, 4);
  AlignedBuffer one_ = AlignedBuffer::zeroed(kBlockBytes);
};

TEST_F(MemoryDeviceTest, ABandThatIsReadOnlyCanStillBeRead) {
  ASSERT_EQ(append(0), ok());
  memory_->retire(kBand, BandCondition::kReadOnly);
  EXPECT_EQ(read(0), ok());
  EXPECT_EQ(append(1), fail(Errc::kBandReadOnly));
  EXPECT_EQ(memory_->reset(kBand), fail(Errc::kBandReadOnly));
  EXPECT_EQ(memory_->set_write_pointer(kBand, 0), fail(Errc::kBandReadOnly));
  EXPECT_EQ(memory_->report(kBand)->condition, BandCondition::kReadOnly);
}

TEST_F(MemoryDeviceTest, ABandThatIsOfflineCannotBeUsedAtAll) {
  ASSERT_EQ(append(0), ok());
  memory_->retire(kBand, BandCondition::kOffline);
  EXPECT_EQ(read(0), fail(Errc::kBandOffline));
  EXPECT_EQ(append(1), fail(Errc::kBandOffline));
  EXPECT_EQ(memory_->reset(kBand), fail(Errc::kBandOffline));
  EXPECT_EQ(memory_->set_write_pointer(kBand, 0), fail(Errc::kBandOffline));
  EXPECT_EQ(memory_->write_pointer(kBand), fail(Errc::kBandOffline));
  EXPECT_EQ(memory_->report(kBand)->condition, BandCondition::kOffline);
}

TEST_F(MemoryDeviceTest, AReadOnlyDeviceRefusesChanges) {
  MemoryDevice memory(memory_->geometry(), {.set_write_pointer = true, .read_only = true});
  EXPECT_EQ(memory.append({kBand, 0}, Piece(one_.span())), fail(Errc::kDeviceReadOnly));
  EXPECT_EQ(memory.reset(kBand), fail(Errc::kDeviceReadOnly));
  EXPECT_EQ(memory.set_write_pointer(kBand, 0), fail(Errc::kDeviceReadOnly));
}

TEST_F(MemoryDeviceTest, LetsATestReadAndChangeTheMedium) {
  const AlignedBuffer zeros = AlignedBuffer::zeroed(kBlockBytes);
  memory_->poke({kBand, 3}, zeros.span());
  memory_->flip({kBand, 3}, 8 * 17 + 2);
  memory_->peek({kBand, 3}, one_.span());
  EXPECT_EQ(one_.data()[17], std::byte{4});
  EXPECT_EQ(memory_->write_pointer(kBand), 0u);
  memory_->place_write_pointer(kBand, 4);
  EXPECT_EQ(read(3), ok());
}

class MemoryWithoutPointersTest : public testing::Test {
 protected:
  Result<> append(std::uint32_t rba, std::uint32_t blocks = 1) {
    return memory_->append({kBand, rba}, Piece(four_.span()).first(blocks * kBlockBytes));
  }

  static constexpr BandId kBand{1};
  std::unique_ptr<MemoryDevice> memory_ =
      MemoryDevice::uniform(2, 4, {.keeps_write_pointers = false});
  AlignedBuffer four_ = AlignedBuffer::zeroed(4 * kBlockBytes);
};

TEST_F(MemoryWithoutPointersTest, ReportsABlockThatIsWrittenTwiceBetweenTwoResets) {
  std::vector<BandAddress> found;
  memory_->on_overwrite([&](BandAddress at) { found.push_back(at); });
  ASSERT_EQ(memory_->reset(kBand), ok());
  ASSERT_EQ(append(0, 3), ok());
  memory_->forget_write_pointers();
  ASSERT_EQ(memory_->set_write_pointer(kBand, 1), ok());
  ASSERT_EQ(append(1, 3), ok());
  EXPECT_EQ(found, (std::vector<BandAddress>{{kBand, 1}, {kBand, 2}}));
  EXPECT_EQ(memory_->written_since_reset(kBand), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  ASSERT_EQ(memory_->reset(kBand), ok());
  ASSERT_EQ(append(0, 4), ok());
  EXPECT_EQ(found.size(), 2u);
}

TEST_F(MemoryWithoutPointersTest, AbortsWhenNobodyListens) {
  ASSERT_EQ(memory_->reset(kBand), ok());
  ASSERT_EQ(append(0), ok());
  memory_->forget_write_pointers();
  ASSERT_EQ(memory_->set_write_pointer(kBand, 0), ok());
  EXPECT_DEATH(ignore_error(append(0), "dies"), "written");
}

TEST_F(MemoryWithoutPointersTest, AResetKeepsTheBytes) {
  std::ranges::fill(four_.span(), std::byte{7});
  ASSERT_EQ(memory_->reset(kBand), ok());
  ASSERT_EQ(append(0), ok());
  ASSERT_EQ(memory_->reset(kBand), ok());
  memory_->forget_write_pointers();
  AlignedBuffer one(kBlockBytes);
  ASSERT_EQ(memory_->read({kBand, 0}, one.span()), ok());
  EXPECT_EQ(one.data()[9], std::byte{7});
}

}  // namespace
}  // namespace lazyfs::device
