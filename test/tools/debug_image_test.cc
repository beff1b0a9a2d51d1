#include "tools/debug_image.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "edi/image.h"
#include "fs/volume/volume.h"
#include "fsck/check.h"
#include "mkfs/mkfs.h"
#include "test/support/test_folder.h"
#include "test/zoned/emulated_disk.h"
#include "zoned/zoned_device.h"

namespace lazyfs {
namespace {

// A volume on a zoned disk of 64 zones, two of them conventional, which hold less than their size.
class DebugImageTest : public ::testing::Test {
 protected:
  DebugImageTest() {
    const zoned::EmulatedMedium::Shape shape{.conventional = 2,
                                             .zones = 64,
                                             .zone_bytes = 64 * std::uint64_t{kBlockBytes},
                                             .capacity_bytes = 60 * std::uint64_t{kBlockBytes}};
    auto disk = std::make_unique<zoned::EmulatedDisk>(
        std::make_shared<zoned::EmulatedMedium>(shape));
    device_ = *zoned::ZonedDevice::make(std::move(disk), false);
    EXPECT_TRUE(mkfs::make_filesystem(*device_, {}));
    auto volume = fs::Volume::mount(*device_, {.background = false});
    for (int i = 0; i < 20; ++i) {
      const std::string name = "file " + std::to_string(i);
      const auto file = (*volume)->create(fs::kRootInode, name, 0644, {});
      const std::string text(40'000, static_cast<char>('a' + i));
      EXPECT_TRUE((*volume)->write(file->attributes.inode, 0, std::as_bytes(std::span(text))));
      (*volume)->release(file->file);
    }
    EXPECT_TRUE((*volume)->unmount());
  }

  std::unique_ptr<zoned::ZonedDevice> device_;
  const TestFolder folder_;
  const std::string image_ = folder_ / "image";
};

TEST_F(DebugImageTest, OfAZonedDeviceIsAnEmulatedDiskWithTheSameMetadata) {
  EXPECT_GT(copy_metadata(*device_, "unused", image_), 0u);
  const auto image = edi::open(image_);
  ASSERT_TRUE(image);
  EXPECT_EQ((*image)->geometry(), device_->geometry());
  for (std::uint32_t band = 2; band < device_->geometry().band_count(); ++band) {
    EXPECT_EQ((*image)->write_pointer(BandId{band}).value(),
              device_->write_pointer(BandId{band}).value())
        << "band " << band;
  }
  auto store = meta::Store::open(**image, {.background = false, .read_only = true});
  ASSERT_TRUE(store);
  const auto report = fsck::check(**store, **image, {}, [](const std::string& problem) {
    ADD_FAILURE() << problem;
  });
  ASSERT_TRUE(report);
}

TEST_F(DebugImageTest, LeavesContentsOut) {
  copy_metadata(*device_, "unused", image_);
  const auto image = edi::open(image_);
  ASSERT_TRUE(image);
  const auto volume = fs::Volume::mount(**image, {.read_only = true, .background = false});
  ASSERT_TRUE(volume);
  const auto file = (*volume)->lookup(fs::kRootInode, "file 7");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size, 40'000u);
  AlignedBuffer block(kBlockBytes);
  const auto read = (*volume)->read(file->inode, 0, block.span());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error(), Errc::kDataChecksumBad) << "zeros do not have its checksum";
  (*volume)->shut_down();
}

TEST_F(DebugImageTest, DoesNotReplaceAFile) {
  copy_metadata(*device_, "unused", image_);
  EXPECT_THROW(copy_metadata(*device_, "unused", image_), std::runtime_error);
  EXPECT_THROW(copy_metadata(*device_, "unused", folder_ / "none" / "image"), std::runtime_error);
}

}  // namespace
}  // namespace lazyfs
