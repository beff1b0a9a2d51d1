#include "tools/overlay_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "device/memory.h"

namespace lazyfs {
namespace {

constexpr BandId kBand{1}, kOther{2};

class OverlayDeviceTest : public testing::Test {
 protected:
  OverlayDeviceTest() { append(*inner_, kBand, 0, "ab"); }

  static AlignedBuffer block(char letter) {
    AlignedBuffer bytes(kBlockBytes);
    std::memset(bytes.span().data(), letter, kBlockBytes);
    return bytes;
  }
  // A block for each letter.
  static void append(device::Device& device, BandId band, std::uint32_t rba,
                     std::string_view letters) {
    for (const char letter : letters) {
      const AlignedBuffer bytes = block(letter);
      ASSERT_TRUE(device.append({band, rba++}, bytes.span()));
    }
  }
  static std::string read(device::Device& device, BandId band) {
    std::string letters;
    const std::uint32_t end = device.write_pointer(band).value_or(0);
    AlignedBuffer bytes(kBlockBytes);
    for (std::uint32_t rba = 0; rba < end; ++rba) {
      EXPECT_TRUE(device.read({band, rba}, bytes.span()));
      letters += static_cast<char>(bytes.span().front());
    }
    return letters;
  }

  const std::unique_ptr<device::MemoryDevice> inner_ = device::MemoryDevice::uniform(3, 8);
  OverlayDevice overlay_{*inner_};
};

TEST_F(OverlayDeviceTest, ReadsTheInnerDeviceAndKeepsWritesToItself) {
  EXPECT_EQ(read(overlay_, kBand), "ab");
  append(overlay_, kBand, 2, "cd");
  append(overlay_, kOther, 0, "x");
  EXPECT_EQ(read(overlay_, kBand), "abcd");
  EXPECT_EQ(read(overlay_, kOther), "x");
  EXPECT_EQ(read(*inner_, kBand), "ab");
  EXPECT_EQ(read(*inner_, kOther), "");
  EXPECT_EQ(overlay_.report(kBand)->write_pointer, 4u);
}

TEST_F(OverlayDeviceTest, ABandThatWasResetIsWrittenFromItsStart) {
  ASSERT_TRUE(overlay_.reset(kBand));
  EXPECT_EQ(read(overlay_, kBand), "");
  EXPECT_EQ(overlay_.report(kBand)->condition, device::BandCondition::kEmpty);
  append(overlay_, kBand, 0, "z");
  EXPECT_EQ(read(overlay_, kBand), "z");
  EXPECT_EQ(read(*inner_, kBand), "ab");
}

TEST_F(OverlayDeviceTest, TakesAppendsAtTheWritePointerOnly) {
  const AlignedBuffer bytes = block('x');
  EXPECT_EQ(overlay_.append({kBand, 1}, bytes.span()).error(), Errc::kNotAtWritePointer);
  EXPECT_EQ(overlay_.set_write_pointer(kBand, 3).error(), Errc::kPastWritePointer);
  ASSERT_TRUE(overlay_.set_write_pointer(kBand, 1));
  EXPECT_TRUE(overlay_.append({kBand, 1}, bytes.span()));
  EXPECT_EQ(read(overlay_, kBand), "ax");
}

}  // namespace
}  // namespace lazyfs
