// What all devices share: their geometry, and resetting every band.
#include "device/device.h"

#include <gtest/gtest.h>

#include "device/faulty.h"
#include "device/memory.h"
#include "test/support/result_printer.h"

namespace lazyfs::device {
namespace {

constexpr BandKind kS = BandKind::kShingled, kC = BandKind::kConventional;

TEST(GeometryTest, TheFirstShingledBandsHaveBlocks) {
  const Geometry linked{.band_blocks = {8, 16, 0, 8}, .band_kinds = {kC, kS, kS, kS}};
  EXPECT_EQ(linked.first_shingled(), (std::array{BandId{1}, BandId{3}}));
  const Geometry too_few{.band_blocks = {8, 0, 8}, .band_kinds = {kC, kS, kS}};
  EXPECT_EQ(too_few.first_shingled(), (std::array{BandId{0}, BandId{1}}));
}

TEST(DeviceTest, ABandThatCannotBeResetIsAnErrorOfResettingAll) {
  const auto memory = MemoryDevice::uniform(4, 8);
  FaultyDevice faulty(*memory);
  faulty.fail_nth(Call::kReset, 2, {.error = Errc::kDeviceWrite});
  EXPECT_EQ(faulty.reset_all(), fail(Errc::kDeviceWrite));
  EXPECT_EQ(faulty.reset_all(), ok());
}

}  // namespace
}  // namespace lazyfs::device
