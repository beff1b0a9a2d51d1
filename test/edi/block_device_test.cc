// Images on block devices: making, claiming, and refused requests.
#include <gtest/gtest.h>

#include <fstream>

#include "edi/create.h"
#include "edi/image.h"
#include "test/support/loop_device.h"

namespace lazyfs::edi {
namespace {

constexpr std::uint64_t kLoopBytes = 32 << 20;

TEST(BlockDeviceTest, IsOverwrittenOnlyOnRequestAndRefusedWhenTooSmallOrInUse) {
  const auto loop = LoopDevice::make(kLoopBytes);
  if (!loop) GTEST_SKIP() << "cannot set up a loop device (requires root)";
  CreateOptions options{.zones = {{8, 16}}};
  ASSERT_TRUE(create(loop->path(), options));
  EXPECT_EQ(create(loop->path(), options).error(), Errc::kEdiExists);
  options.overwrite = true;
  EXPECT_TRUE(create(loop->path(), options));
  options.zones = {{8, 1024}};
  EXPECT_EQ(create(loop->path(), options).error(), Errc::kDeviceNoSpace);
  const int claim = ::open(loop->path().c_str(), O_RDONLY | O_EXCL | O_CLOEXEC);
  ASSERT_GE(claim, 0);
  EXPECT_EQ(edi::open(loop->path()).error(), Errc::kDeviceBusy);
  EXPECT_TRUE(edi::open(loop->path(), {.read_only = true, .exclusive = false}));
  ::close(claim);
  EXPECT_TRUE(edi::open(loop->path()));
}

// The copy of an identification block lies in the last whole MiB.
TEST(BlockDeviceTest, LosesWhatOtherFormatsKeepAtItsEnd) {
  constexpr std::uint64_t kWiped = 2 << 20, kSize = (9 << 20) - 512;
  const auto loop = LoopDevice::make(kSize);
  if (!loop) GTEST_SKIP() << "cannot set up a loop device (requires root)";
  const std::string before(kWiped + 1, 'x');
  std::fstream device(loop->path(), std::ios::in | std::ios::out | std::ios::binary);
  device.seekp(kSize - kWiped - 1).write(before.data(), std::ssize(before)).flush();
  ASSERT_TRUE(create(loop->path(), {.zones = {{8, 16}}}));
  std::string after(kWiped + 1, '?');
  device.seekg(kSize - kWiped - 1).read(after.data(), std::ssize(after));
  EXPECT_EQ(after.front(), 'x');
  EXPECT_EQ(after.find_first_not_of('\0', 1), std::string::npos);
}

TEST(BlockDeviceTest, MayBeAsSmallAsTheImage) {
  const CreateOptions options{.zones = {{2, 16}}};
  const auto loop = LoopDevice::make(*image_bytes(options));
  if (!loop) GTEST_SKIP() << "cannot set up a loop device (requires root)";
  ASSERT_TRUE(create(loop->path(), options));
  EXPECT_TRUE(edi::open(loop->path()));
}

TEST(BlockDeviceTest, IsNotOpenedForWritingWhenItIsWriteProtected) {
  const auto loop = LoopDevice::make(kLoopBytes);
  if (!loop) GTEST_SKIP() << "cannot set up a loop device (requires root)";
  ASSERT_TRUE(create(loop->path(), {.zones = {{8, 16}}}));
  ASSERT_TRUE(loop->protect(true));
  EXPECT_EQ(edi::open(loop->path()).error(), Errc::kDeviceReadOnly);
  EXPECT_EQ(create(loop->path(), {.zones = {{8, 16}}, .overwrite = true}).error(),
            Errc::kDeviceReadOnly);
  EXPECT_TRUE(edi::open(loop->path(), {.read_only = true}));
}

}  // namespace
}  // namespace lazyfs::edi
