#include "fs/volume/switched_device.h"

#include <gtest/gtest.h>

#include <array>

#include "base/buffer.h"
#include "device/memory.h"

namespace lazyfs::fs {
namespace {

constexpr BandId kBand{2};

TEST(SwitchedDeviceTest, PassesCallsOnUntilItIsSwitchedOff) {
  const auto memory = device::MemoryDevice::uniform(4, 8);
  SwitchedDevice device(*memory);
  AlignedBuffer block(kBlockBytes);
  const std::array pieces{device::Piece(block.span())};
  ASSERT_TRUE(device.append({kBand, 0}, pieces));
  EXPECT_TRUE(device.read({kBand, 0}, block.span()));
  EXPECT_TRUE(device.flush());
  EXPECT_EQ(device.write_pointer(kBand), 1u);
  EXPECT_EQ(device.report(kBand)->write_pointer, 1u);
  EXPECT_FALSE(device.is_off());
}

TEST(SwitchedDeviceTest, EveryCallFailsAndNothingIsWrittenOnceItIsOff) {
  const auto memory = device::MemoryDevice::uniform(4, 8);
  SwitchedDevice device(*memory);
  AlignedBuffer block(kBlockBytes);
  const std::array pieces{device::Piece(block.span())};
  ASSERT_TRUE(device.append({kBand, 0}, pieces));
  device.switch_off();
  device.switch_off();
  EXPECT_TRUE(device.is_off());
  EXPECT_EQ(device.append({kBand, 1}, pieces).error(), Errc::kShutDown);
  EXPECT_EQ(device.reset(kBand).error(), Errc::kShutDown);
  EXPECT_EQ(device.discard(kBand).error(), Errc::kShutDown);
  EXPECT_EQ(device.set_write_pointer(kBand, 0).error(), Errc::kShutDown);
  EXPECT_EQ(device.read({kBand, 0}, block.span()).error(), Errc::kShutDown);
  EXPECT_EQ(device.write_pointer(kBand).error(), Errc::kShutDown);
  EXPECT_EQ(device.report(kBand).error(), Errc::kShutDown);
  EXPECT_EQ(device.flush().error(), Errc::kShutDown);
  EXPECT_EQ(device.grow(0).error(), Errc::kShutDown);
  EXPECT_EQ(memory->write_pointer(kBand), 1u);
  EXPECT_EQ(device.geometry().band_count(), 4u);
}

}  // namespace
}  // namespace lazyfs::fs
