#include "data/verified_read.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "base/buffer.h"
#include "base/crc32c.h"
#include "device/forwarding.h"
#include "device/memory.h"
#include "device/read_ahead.h"
#include "test/support/result_printer.h"

namespace lazyfs::data {
namespace {

// Changes the last byte of each of the next `damages` reads.
class UnsteadyDevice final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Result<> read(BandAddress from, std::span<std::byte> to) override {
    TRY(ForwardingDevice::read(from, to));
    if (damages == 0) return ok();
    --damages;
    to.back() ^= std::byte{1};
    return ok();
  }

  int damages = 0;
};

// A band with three blocks that differ.
class VerifiedReadTest : public testing::Test {
 protected:
  static constexpr BandId kBand{1};
  static constexpr std::uint32_t kBlocks = 3;

  void SetUp() override {
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
      const std::span block = written_.span().subspan(i * kBlockBytes, kBlockBytes);
      std::memset(block.data(), static_cast<int>(i) + 1, kBlockBytes);
      crcs_.at(i) = crc32c(block);
    }
    ASSERT_EQ(memory_->append({kBand, 0}, device::Piece(written_.span())), ok());
  }
  // Reads blocks from `first` on, and compares them if that succeeds.
  Result<> read(device::Device& device, std::uint32_t first, std::uint32_t blocks) {
    AlignedBuffer found(std::size_t{blocks} * kBlockBytes);
    TRY(read_verified(device, {kBand, first}, std::span(crcs_).subspan(first, blocks),
                      found.span()));
    EXPECT_EQ(std::memcmp(found.data(), written_.data() + std::size_t{first} * kBlockBytes,
                          found.size()), 0);
    return ok();
  }

  std::unique_ptr<device::MemoryDevice> memory_ = device::MemoryDevice::uniform(4, kBlocks + 1);
  UnsteadyDevice unsteady_{*memory_};
  AlignedBuffer written_ = AlignedBuffer(kBlocks * kBlockBytes);
  std::array<std::uint32_t, kBlocks> crcs_{};
};

TEST_F(VerifiedReadTest, FindsAChangedBlock) {
  EXPECT_EQ(read(*memory_, 0, kBlocks), ok());
  memory_->flip({kBand, 1}, 77);
  EXPECT_EQ(read(*memory_, 0, kBlocks), fail(Errc::kDataChecksumBad));
  EXPECT_EQ(read(*memory_, 2, 1), ok());
}

TEST_F(VerifiedReadTest, ReadsABlockOnceMoreThatIsWrong) {
  unsteady_.damages = 1;
  EXPECT_EQ(read(unsteady_, 0, kBlocks), ok());
  unsteady_.damages = 2;
  EXPECT_EQ(read(unsteady_, 0, kBlocks), fail(Errc::kDataChecksumBad));
}

TEST_F(VerifiedReadTest, AsksTheMediumForABlockThatWasDamagedWhenItWasReadAhead) {
  device::ReadAheadDevice ahead(unsteady_);
  ASSERT_EQ(read(ahead, 0, 1), ok());
  unsteady_.damages = 1;
  ASSERT_EQ(read(ahead, 1, 1), ok());
  ASSERT_EQ(unsteady_.damages, 0) << "block 2 was read with block 1, and damaged";
  EXPECT_EQ(read(ahead, 2, 1), ok());
}

}  // namespace
}  // namespace lazyfs::data
