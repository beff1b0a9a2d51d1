#include "fuse/session/mount_watcher.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <latch>
#include <new>
#include <string>

#include "test/support/test_folder.h"

namespace lazyfs::fuse {
namespace {

// What the kernel says of a mount does not depend on the filesystem, so a tmpfs is watched.
class MountWatcherTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root may mount";
    for (const std::string& point : {point_, other_}) std::filesystem::create_directory(point);
    ASSERT_EQ(mount("watched", point_.c_str(), "tmpfs", 0, nullptr), 0);
  }
  void TearDown() override {
    for (const std::string& point : {point_, other_}) {
      while (umount2(point.c_str(), MNT_DETACH) == 0) continue;
    }
  }
  void bind_elsewhere() {
    ASSERT_EQ(mount(point_.c_str(), other_.c_str(), nullptr, MS_BIND, nullptr), 0);
  }
  static void remount(const std::string& point, unsigned long flags) {
    ASSERT_EQ(mount(nullptr, point.c_str(), nullptr, MS_REMOUNT | flags, nullptr), 0);
  }
  void note(bool read_only) {
    ++changes_;
    is_read_only_ = read_only;
  }

  const TestFolder folder_;
  const std::string point_ = folder_ / "mnt", other_ = folder_ / "other";
  std::atomic<int> changes_{0};
  std::atomic<bool> is_read_only_{false};
};

TEST_F(MountWatcherTest, ARemountIsNoticedOnce) {
  MountWatcher watcher(point_, false, [this](bool read_only) { note(read_only); });
  remount(point_, MS_RDONLY);
  watcher.look();
  watcher.look();
  EXPECT_TRUE(is_read_only_);
  EXPECT_EQ(changes_, 1);
  remount(point_, 0);
  watcher.look();
  EXPECT_FALSE(is_read_only_);
  EXPECT_EQ(changes_, 2);
}

TEST_F(MountWatcherTest, AMountThatIsReadOnlyByItselfChangesNoFilesystem) {
  MountWatcher watcher(point_, false, [this](bool read_only) { note(read_only); });
  remount(point_, MS_BIND | MS_RDONLY);
  watcher.look();
  EXPECT_EQ(changes_, 0);
}

// The filesystem lives on by its other mount. The kernel gives the next mount the short number of
// the old one.
TEST_F(MountWatcherTest, AMountThatTakesThePlaceIsNotWatched) {
  bind_elsewhere();
  MountWatcher watcher(point_, false, [this](bool read_only) { note(read_only); });
  ASSERT_EQ(umount2(point_.c_str(), 0), 0);
  ASSERT_EQ(mount("next", point_.c_str(), "tmpfs", MS_RDONLY, nullptr), 0);
  watcher.look();
  EXPECT_EQ(changes_, 0);
}

TEST_F(MountWatcherTest, ARemountOfTheFilesystemsOtherMountIsNoticed) {
  bind_elsewhere();
  MountWatcher watcher(point_, false, [this](bool read_only) { note(read_only); });
  ASSERT_EQ(umount2(point_.c_str(), 0), 0);
  remount(other_, MS_RDONLY);
  watcher.look();
  EXPECT_TRUE(is_read_only_);
}

TEST_F(MountWatcherTest, LooksAgainAfterMemoryWasShort) {
  std::atomic<int> tries{0};
  std::latch noticed(1);
  MountWatcher watcher(point_, false, [&](bool read_only) {
    if (tries++ == 0) throw std::bad_alloc();
    note(read_only);
    noticed.count_down();
  });
  remount(point_, MS_RDONLY);
  noticed.wait();
  EXPECT_TRUE(is_read_only_);
}

}  // namespace
}  // namespace lazyfs::fuse
