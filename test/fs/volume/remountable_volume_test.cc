// A volume that was mounted for reading becomes writable in use.
#include "fs/volume/remountable_volume.h"

#include <gtest/gtest.h>

#include "device/forwarding.h"
#include "test/fs/volume_fixture.h"

namespace lazyfs::fs {
namespace {

class RemountableVolumeTest : public VolumeTest {
 protected:
  // Leaves a durable file on the disk, and a change that was not unmounted.
  void SetUp() override {
    VolumeTest::SetUp();
    const InodeNo file = create("file");
    write(file, 0, "old");
    ASSERT_TRUE(volume_->fsync(file, nullptr, false));
    write(file, 1 << 20, std::string(1 << 20, 'x'));
    volume_->shut_down();
    volume_.reset();
    mount_for_reading();
  }
  void mount_for_reading() {
    auto volume = RemountableVolume::mount_read_only(
        [this](bool read_only) -> Result<std::unique_ptr<device::Device>> {
          if (!read_only && refusal_ != Errc::kInternal) return fail(refusal_);
          return std::make_unique<device::ForwardingDevice>(faulty_);
        },
        options_);
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  void clean_up_orphans() { EXPECT_TRUE(volume_->space()); }

  Errc refusal_ = Errc::kInternal;  // of opening for writing; kInternal: none
};

TEST_F(RemountableVolumeTest, IsReadOnlyUntilItIsMadeWritable) {
  EXPECT_EQ(volume_->make_directory(kRootInode, "d", 0755, {}).error(), Errc::kReadOnly);
  ASSERT_TRUE(volume_->make_writable());
  EXPECT_TRUE(volume_->make_directory(kRootInode, "d", 0755, {}));
}

TEST_F(RemountableVolumeTest, KeepsLookupsAndOpenFiles) {
  const InodeNo file = lookup("file");
  const auto opened = volume_->open(file);
  ASSERT_TRUE(opened);
  ASSERT_TRUE(volume_->make_writable());
  // The inode has a lookup and an open file, so it outlives its name.
  ASSERT_TRUE(volume_->unlink(kRootInode, "file"));
  EXPECT_EQ(read(file, 0, 3), "old");
  EXPECT_TRUE(volume_->fsync(file, *opened, false));
  EXPECT_TRUE(volume_->flush(*opened));
  volume_->release(*opened);
  clean_up_orphans();
  EXPECT_TRUE(volume_->get_attributes(file));
  volume_->forget(file, 1);
  clean_up_orphans();
  EXPECT_FALSE(volume_->get_attributes(file));
}

TEST_F(RemountableVolumeTest, ForgottenLookupsAreNotTakenAgain) {
  const InodeNo file = lookup("file");
  lookup("file");
  volume_->forget(file, 1);
  ASSERT_TRUE(volume_->make_writable());
  ASSERT_TRUE(volume_->unlink(kRootInode, "file"));
  clean_up_orphans();
  EXPECT_TRUE(volume_->get_attributes(file));
  volume_->forget(file, 1);
  clean_up_orphans();
  EXPECT_FALSE(volume_->get_attributes(file));
}

TEST_F(RemountableVolumeTest, ChangesAreDurable) {
  ASSERT_TRUE(volume_->make_writable());
  const InodeNo file = create("new");
  write(file, 0, "text");
  ASSERT_TRUE(volume_->make_writable());  // once more: nothing happens
  ASSERT_TRUE(volume_->unmount());
  volume_.reset();
  mount();
  EXPECT_EQ(read(lookup("new")), "text");
}

TEST_F(RemountableVolumeTest, DeviceThatCannotBeWrittenIsTheReason) {
  refusal_ = Errc::kDeviceReadOnly;
  const InodeNo file = lookup("file");
  EXPECT_EQ(volume_->make_writable().error(), Errc::kDeviceReadOnly);
  EXPECT_EQ(read(file, 0, 3), "old");
  EXPECT_EQ(volume_->unlink(kRootInode, "file").error(), Errc::kReadOnly);
}

TEST_F(RemountableVolumeTest, ServesReadersAfterARecoveryThatFailed) {
  const InodeNo file = lookup("file");
  faulty_.fail_nth(device::Call::kFlush, 1, {Errc::kDeviceFlush});
  EXPECT_FALSE(volume_->make_writable());
  EXPECT_EQ(read(file, 0, 3), "old");
  EXPECT_EQ(volume_->unlink(kRootInode, "file").error(), Errc::kReadOnly);
}

TEST_F(RemountableVolumeTest, StaysEndedAfterAShutdown) {
  volume_->shut_down();
  EXPECT_EQ(volume_->make_writable().error(), Errc::kShutDown);
}

TEST_F(VolumeTest, IsNotWritableAfterAnError) {
  create("file");
  faulty_.fail_nth(device::Call::kFlush, 1, {Errc::kDeviceFlush});
  EXPECT_FALSE(volume_->sync());
  EXPECT_EQ(volume_->make_writable().error(), Errc::kLogFailed);
  volume_.reset();
}

}  // namespace
}  // namespace lazyfs::fs
