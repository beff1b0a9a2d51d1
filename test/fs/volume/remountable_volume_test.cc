// A volume becomes writable, and read-only, in use.
#include "fs/volume/remountable_volume.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>

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
    MountOptions options = options_;
    options.read_only = true;
    auto volume = RemountableVolume::mount(
        [this](bool read_only) -> Result<std::unique_ptr<device::Device>> {
          if (!read_only && refusal_ != Errc::kInternal) return fail(refusal_);
          return std::make_unique<device::ForwardingDevice>(faulty_);
        },
        options);
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  void clean_up_orphans() { volume_->tick(); }

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

TEST_F(RemountableVolumeTest, NothingIsWrittenOnceItIsReadOnly) {
  ASSERT_TRUE(volume_->make_writable());
  for (int i = 0; i < 20; ++i) {
    const InodeNo file = create(std::to_string(i));
    write(file, 0, std::string(1 << 20, 'y'));
    ASSERT_TRUE(volume_->fsync(file, nullptr, false));
    if (i % 2 == 1) continue;
    ASSERT_TRUE(volume_->unlink(kRootInode, std::to_string(i)));
    volume_->forget(file, 1);
  }
  write(lookup("1"), 0, "dirty");
  ASSERT_TRUE(volume_->make_read_only());
  const std::uint64_t changes = faulty_.changes();
  EXPECT_EQ(volume_->collect_garbage().error(), Errc::kReadOnly);
  EXPECT_EQ(volume_->unlink(kRootInode, "1").error(), Errc::kReadOnly);
  EXPECT_EQ(read(lookup("1"), 0, 5), "dirty");
  EXPECT_TRUE(volume_->sync());
  EXPECT_TRUE(volume_->space());
  EXPECT_TRUE(volume_->scrub({}, 1));
  EXPECT_TRUE(volume_->make_read_only());  // once more
  volume_->tick();
  EXPECT_EQ(faulty_.changes(), changes);
}

TEST_F(RemountableVolumeTest, ReadOnlyVolumeWasEndedCleanly) {
  ASSERT_TRUE(volume_->make_writable());
  create("new");
  ASSERT_TRUE(volume_->make_read_only());
  const std::uint64_t changes = faulty_.changes();
  ASSERT_TRUE(volume_->unmount());
  volume_.reset();
  EXPECT_EQ(faulty_.changes(), changes);
  mount_again();
  EXPECT_TRUE(volume_->lookup(kRootInode, "new"));
}

TEST_F(RemountableVolumeTest, BecomesWritableAgainWithLookupsAndFiles) {
  ASSERT_TRUE(volume_->make_writable());
  const InodeNo file = lookup("file");
  const auto before = volume_->open(file);
  ASSERT_TRUE(before);
  ASSERT_TRUE(volume_->make_read_only());
  EXPECT_EQ(volume_->make_directory(kRootInode, "d", 0755, {}).error(), Errc::kReadOnly);
  const auto meanwhile = volume_->open(file);
  ASSERT_TRUE(meanwhile);
  EXPECT_EQ(read(file, 0, 3), "old");
  EXPECT_TRUE(volume_->flush(*before));
  ASSERT_TRUE(volume_->make_writable());
  EXPECT_TRUE(volume_->fsync(file, *before, false));
  volume_->release(*before);
  volume_->release(*meanwhile);
  ASSERT_TRUE(volume_->unlink(kRootInode, "file"));
  clean_up_orphans();
  EXPECT_TRUE(volume_->get_attributes(file));  // the lookup holds it
  volume_->forget(file, 1);
  clean_up_orphans();
  EXPECT_FALSE(volume_->get_attributes(file));
}

TEST_F(RemountableVolumeTest, UnlinkedFileInUseIsKept) {
  ASSERT_TRUE(volume_->make_writable());
  const InodeNo file = lookup("file");
  ASSERT_TRUE(volume_->unlink(kRootInode, "file"));
  ASSERT_TRUE(volume_->make_read_only());
  EXPECT_EQ(read(file, 0, 3), "old");
  ASSERT_TRUE(volume_->make_writable());
  clean_up_orphans();
  EXPECT_EQ(read(file, 0, 3), "old");
  volume_->forget(file, 1);
  clean_up_orphans();
  EXPECT_FALSE(volume_->get_attributes(file));
}

TEST_F(RemountableVolumeTest, LookupsGivenBackWhileItIsWritableAreNotTakenAgain) {
  const InodeNo file = lookup("file");
  ASSERT_TRUE(volume_->make_writable());
  lookup("file");
  volume_->forget(file, 2);
  ASSERT_TRUE(volume_->make_read_only());
  ASSERT_TRUE(volume_->make_writable());
  ASSERT_TRUE(volume_->unlink(kRootInode, "file"));
  clean_up_orphans();
  EXPECT_FALSE(volume_->get_attributes(file));
}

TEST_F(RemountableVolumeTest, ChangedOptionsOutliveARemount) {
  options_.commit_interval = std::chrono::seconds(77);
  options_.cache_bytes = std::size_t{3} << 20;
  options_.clean = CleanChoice::kTail;
  options_.gc_space = false;
  options_.access_time = AccessTime::kNone;
  ASSERT_TRUE(volume_->change_options(options_));
  const std::string changed = "noatime,commit=77,cache=3M,dirty=256M,placement=first,clean=tail,"
                              "gc=idle,";
  EXPECT_TRUE(volume_->info().options.starts_with("ro," + changed)) << volume_->info().options;
  ASSERT_TRUE(volume_->make_writable());
  EXPECT_TRUE(volume_->info().options.starts_with("rw," + changed)) << volume_->info().options;
  options_.placement = data::Placement::kAgeFit;
  options_.commit_interval = std::chrono::seconds(5);
  ASSERT_TRUE(volume_->change_options(options_));
  EXPECT_NE(volume_->info().options.find("commit=5,"), std::string::npos);
  EXPECT_NE(volume_->info().options.find("placement=age"), std::string::npos);
  write(create("new"), 0, "text");
  ASSERT_TRUE(volume_->make_read_only());
  EXPECT_NE(volume_->info().options.find("placement=age"), std::string::npos);
}

// Who changes options names neither of the two.
TEST_F(RemountableVolumeTest, AnErrorAfterARemountWithChangedOptionsIsReported) {
  int reports = 0;
  options_.on_read_only = [&] { ++reports; };
  mount_for_reading();
  ASSERT_TRUE(volume_->change_options({}));
  ASSERT_TRUE(volume_->make_writable());
  create("lost");
  faulty_.fail_nth(device::Call::kFlush, 1, {Errc::kDeviceFlush});
  EXPECT_FALSE(volume_->sync());
  volume_->tick();
  EXPECT_EQ(reports, 1);
  volume_.reset();
}

TEST_F(RemountableVolumeTest, AMountWithoutThreadsHasNoneAfterARemountWithChangedOptions) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const auto before = threads();
  ASSERT_TRUE(volume_->change_options({}));
  ASSERT_TRUE(volume_->make_writable());
  EXPECT_EQ(threads(), before);
}

TEST_F(RemountableVolumeTest, ContinuesForReadersWhenItsEndFailed) {
  ASSERT_TRUE(volume_->make_writable());
  create("durable");
  ASSERT_TRUE(volume_->sync());
  // The superblock, which is written last.
  faulty_.fail_when([](const device::CallInfo& call) -> std::optional<device::Fault> {
    if (call.call != device::Call::kAppend || call.at.band.value > 1) return std::nullopt;
    return device::Fault{Errc::kDeviceWrite};
  });
  EXPECT_FALSE(volume_->make_read_only());
  faulty_.mend();
  EXPECT_EQ(volume_->make_directory(kRootInode, "d", 0755, {}).error(), Errc::kReadOnly);
  EXPECT_TRUE(volume_->lookup(kRootInode, "durable"));
}

TEST_F(RemountableVolumeTest, NothingRemainsToBeDoneAfterAnError) {
  ASSERT_TRUE(volume_->make_writable());
  create("lost");
  faulty_.fail_nth(device::Call::kFlush, 1, {Errc::kDeviceFlush});
  EXPECT_TRUE(volume_->make_read_only());
  EXPECT_EQ(volume_->make_directory(kRootInode, "d", 0755, {}).error(), Errc::kReadOnly);
  EXPECT_EQ(volume_->make_writable().error(), Errc::kLogFailed);
  volume_.reset();
}

// make_read_only() syncs twice: the second time no other thread uses the volume.
TEST_F(RemountableVolumeTest, NothingRemainsToBeDoneAfterAnErrorOfTheSecondSync) {
  ASSERT_TRUE(volume_->make_writable());
  ASSERT_TRUE(volume_->sync());
  faulty_.fail_nth(device::Call::kFlush, 2, {Errc::kDeviceFlush});
  EXPECT_TRUE(volume_->make_read_only());
  EXPECT_TRUE(volume_->make_read_only());
  EXPECT_EQ(volume_->make_directory(kRootInode, "d", 0755, {}).error(), Errc::kReadOnly);
  EXPECT_EQ(volume_->make_writable().error(), Errc::kLogFailed);
  volume_.reset();
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
