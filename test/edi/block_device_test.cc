// A block device becomes an image, and is claimed and refused as it should be.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "edi/create.h"
#include "edi/image.h"
#include "loop.h"

namespace lazyfs::edi {
namespace {

constexpr std::uint64_t kLoopBytes = 32 << 20;

TEST(BlockDeviceTest, IsOverwrittenOnlyOnRequestAndRefusedWhenTooSmallOrInUse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can set up a loop device";
  const std::filesystem::path file = "edi-block-device-test.img";
  std::ofstream(file).close();
  std::filesystem::resize_file(file, kLoopBytes);
  LoopDevice loop(file);
  std::filesystem::remove(file);  // the loop device keeps it
  if (!loop.works()) GTEST_SKIP() << "no loop device can be set up here";
  CreateOptions options{.zones = {{8, 16}}};
  ASSERT_TRUE(create(loop.path(), options));
  EXPECT_EQ(create(loop.path(), options).error(), Errc::kEdiExists);
  options.overwrite = true;
  EXPECT_TRUE(create(loop.path(), options));
  EXPECT_EQ(backing_bytes(loop.path()), kLoopBytes);
  options.zones = {{8, 1024}};
  EXPECT_EQ(create(loop.path(), options).error(), Errc::kDeviceNoSpace);
  const int claim = ::open(loop.path().c_str(), O_RDONLY | O_EXCL | O_CLOEXEC);
  ASSERT_GE(claim, 0);
  EXPECT_EQ(edi::open(loop.path()).error(), Errc::kDeviceBusy);
  EXPECT_TRUE(edi::open(loop.path(), {.read_only = true, .exclusive = false}));
  ::close(claim);
  EXPECT_TRUE(edi::open(loop.path()));
}

}  // namespace
}  // namespace lazyfs::edi
