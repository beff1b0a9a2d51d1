// Which kind of device a path holds.
#include "disk/open.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "edi/create.h"
#include "test/plain/plain_file.h"
#include "test/support/loop_device.h"
#include "test/support/result_printer.h"
#include "test/support/units.h"

namespace lazyfs::disk {
namespace {

const edi::CreateOptions kImage{.zones = {{8, 256}}, .overwrite = true};

class DiskOpenTest : public testing::Test {
 protected:
  // "pointers" or "plain" for a device, or the error's name.
  static std::string kind_of(const std::string& path, OpenOptions options = {}) {
    const auto opened = open(path, options);
    if (!opened) return std::string(name_of(opened.error()));
    return (*opened)->capabilities().keeps_write_pointers ? "pointers" : "plain";
  }
  // The loop device then begins there in its file.
  bool begin_at(std::uint64_t offset_bytes) {
    const int fd = ::open(loop_->path().c_str(), O_RDWR | O_CLOEXEC);
    loop_info64 info{};
    bool is_done = ioctl(fd, LOOP_GET_STATUS64, &info) == 0;
    info.lo_offset = offset_bytes;
    is_done = is_done && ioctl(fd, LOOP_SET_STATUS64, &info) == 0;
    close(fd);
    return is_done;
  }
  static Result<> make_plain(const std::string& path) {
    return plain::create(path, *plain::plan_volume(16 * kMiB, kMiB));
  }

  plain::PlainFile file_{16 * kMiB};
  const std::unique_ptr<LoopDevice> loop_ = LoopDevice::make(16 * kMiB);
};

TEST_F(DiskOpenTest, AFileHoldsAnImageOrACopyOfAPlainDevice) {
  EXPECT_EQ(kind_of(file_.path()), "kEdiBadMagic");
  ASSERT_EQ(make_plain(file_.path()), ok());
  EXPECT_EQ(kind_of(file_.path()), "plain");
  file_.overwrite(plain::kIdentityAt, 4);
  EXPECT_EQ(kind_of(file_.path()), "plain") << "by the copy";
  ASSERT_EQ(edi::create(file_.path(), kImage), ok());
  EXPECT_EQ(kind_of(file_.path()), "pointers");
}

TEST_F(DiskOpenTest, ABlockDeviceHoldsPlainBands) {
  if (!loop_) GTEST_SKIP() << "no loop device";
  EXPECT_EQ(kind_of(loop_->path()), "kIdentityMissing");
  ASSERT_EQ(edi::create(loop_->path(), kImage), ok());
  EXPECT_EQ(kind_of(loop_->path()), "kImageBehindLoop");
  ASSERT_EQ(make_plain(loop_->path()), ok());
  EXPECT_EQ(kind_of(loop_->path()), "plain");
  const auto claimed = open(loop_->path(), {.read_only = true, .exclusive = false});
  EXPECT_TRUE((*claimed)->capabilities().read_only);
}

// Such a device is like any other: its file begins with something else than the image.
TEST_F(DiskOpenTest, ALoopDeviceInsideOfAFileIsNotTakenForItsFile) {
  if (!loop_) GTEST_SKIP() << "no loop device";
  ASSERT_TRUE(begin_at(kMiB));
  ASSERT_EQ(edi::create(loop_->path(), kImage), ok());
  EXPECT_EQ(kind_of(loop_->path()), "kEdiOnBlockDevice");
}

TEST_F(DiskOpenTest, SmallBlocksOfAnImageAreUsedInWholeOnes) {
  const edi::CreateOptions options{
      .block_bytes = 512, .zones = {{8, 2053}}, .overwrite = true};
  ASSERT_EQ(edi::create(file_.path(), options), ok());
  const auto opened = open(file_.path());
  ASSERT_TRUE(opened);
  EXPECT_EQ((*opened)->geometry().block_bytes, kBlockBytes);
  EXPECT_EQ((*opened)->geometry().band_blocks, std::vector<std::uint32_t>(8, 256));
  EXPECT_NE(image_of(**opened), nullptr);
}

TEST_F(DiskOpenTest, AFileThatIsHeldIsNotSoughtByItsPath) {
  ASSERT_EQ(make_plain(file_.path()), ok());
  const auto held =
      *device::Backing::open(file_.path(), false, device::Backing::Claim::kExclusive);
  EXPECT_EQ(kind_of(file_.path()), "kDeviceBusy");
  EXPECT_EQ(kind_of("/nowhere/at/all", {.held = &held}), "plain");
}

TEST_F(DiskOpenTest, SaysWhatIsWrongWithThePath) {
  EXPECT_EQ(kind_of("/nowhere/at/all"), "kDeviceMissing");
  EXPECT_EQ(kind_of("/dev/null"), "kNotADisk");
}

}  // namespace
}  // namespace lazyfs::disk
