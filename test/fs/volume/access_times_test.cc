// When reading sets an access time (fs/volume/access_times.h).
#include <chrono>
#include <string>

#include "test/fs/volume_fixture.h"

namespace lazyfs::fs {
namespace {

class WallClock final : public Clock {
 public:
  Timestamp now() override { return time; }
  std::chrono::nanoseconds monotonic() override { return std::chrono::seconds(time.seconds); }
  Timestamp time{1'700'000'000, 0};
};

class AccessTimesTest : public VolumeTest {
 protected:
  void mount() override {
    auto volume = Volume::mount(faulty_, options_, clock_);
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  void use(AccessTime when) {
    options_.access_time = when;
    ASSERT_TRUE(volume_->change_options(options_));
  }
  void pass(std::int64_t seconds) { clock_.time.seconds += seconds; }
  Timestamp access_of(InodeNo inode) { return volume_->get_attributes(inode)->access; }
  // Whether reading the file sets its access time, a second after the last change of anything.
  bool is_set_by_reading(InodeNo file, bool note_access = true) {
    pass(1);
    std::string text(4, '?');
    EXPECT_TRUE(volume_->read(file, 0, std::as_writable_bytes(std::span(text)), note_access));
    return access_of(file) == clock_.time;
  }

  WallClock clock_;
};

TEST_F(AccessTimesTest, RelativeOnesAreSetAfterAChangeOrADay) {
  const InodeNo file = create("file");
  write(file, 0, "text");
  EXPECT_TRUE(is_set_by_reading(file));  // read for the first time
  EXPECT_FALSE(is_set_by_reading(file));
  pass(1);
  write(file, 0, "new");
  EXPECT_TRUE(is_set_by_reading(file));
  EXPECT_FALSE(is_set_by_reading(file));
  pass(1);
  ASSERT_TRUE(volume_->set_attributes(file, {.mode = 0600}));
  EXPECT_TRUE(is_set_by_reading(file));
  pass(86'398);
  EXPECT_FALSE(is_set_by_reading(file));  // 86,399 seconds later
  EXPECT_TRUE(is_set_by_reading(file));
}

// Such as those of a file that was written and read within a step of the clock.
TEST_F(AccessTimesTest, ARelativeOneIsSetThatEqualsTheTimeOfAChange) {
  const InodeNo file = create("file");
  const Timestamp now = clock_.time, later{now.seconds + 1'000, 0};
  write(file, 0, "text");
  ASSERT_TRUE(volume_->set_attributes(
      file, {.access = later, .modification = later, .change = now}));
  EXPECT_TRUE(is_set_by_reading(file));
  ASSERT_TRUE(volume_->set_attributes(
      file, {.access = later, .modification = now, .change = later}));
  EXPECT_TRUE(is_set_by_reading(file));
  ASSERT_TRUE(volume_->set_attributes(
      file, {.access = later, .modification = now, .change = now}));
  EXPECT_FALSE(is_set_by_reading(file));
}

TEST_F(AccessTimesTest, StrictOnesAreAlwaysSetAndOthersNever) {
  const InodeNo file = create("file");
  write(file, 0, "text");
  use(AccessTime::kStrict);
  EXPECT_TRUE(is_set_by_reading(file));
  EXPECT_TRUE(is_set_by_reading(file));
  EXPECT_FALSE(is_set_by_reading(file, false));  // O_NOATIME
  use(AccessTime::kNone);
  write(file, 0, "new");
  EXPECT_FALSE(is_set_by_reading(file));
}

TEST_F(AccessTimesTest, DirectoriesSymlinksAndSourcesOfCopiesAreReadToo) {
  const InodeNo file = create("file"), copy = create("copy");
  write(file, 0, "text");
  const auto symlink = volume_->make_symlink(kRootInode, "symlink", "target", {});
  const auto directory = volume_->make_directory(kRootInode, "directory", 0755, {});
  ASSERT_TRUE(symlink && directory);
  pass(1);
  ASSERT_TRUE(volume_->read_directory(directory->inode, 0, 10, false));
  EXPECT_NE(access_of(directory->inode), clock_.time);
  ASSERT_TRUE(volume_->read_directory(directory->inode, 0, 10));
  EXPECT_EQ(access_of(directory->inode), clock_.time);
  ASSERT_TRUE(volume_->read_link(symlink->inode));
  EXPECT_EQ(access_of(symlink->inode), clock_.time);
  ASSERT_TRUE(volume_->copy_range(file, 0, copy, 0, 4, false));
  EXPECT_EQ(access_of(file), clock_.time);
  use(AccessTime::kStrict);
  pass(1);
  ASSERT_TRUE(volume_->read_directory(directory->inode, 3, 10));  // continues a reading
  EXPECT_NE(access_of(directory->inode), clock_.time);
}

TEST_F(AccessTimesTest, TheyBecomeDurableWithASync) {
  const InodeNo file = create("file");
  write(file, 0, "text");
  ASSERT_TRUE(volume_->sync());
  EXPECT_TRUE(is_set_by_reading(file));
  ASSERT_TRUE(volume_->sync());
  lose_power();
  EXPECT_EQ(access_of(lookup("file")), clock_.time);
}

TEST_F(AccessTimesTest, AReadOnlyVolumeSetsNone) {
  const InodeNo file = create("file");
  write(file, 0, "text");
  options_.access_time = AccessTime::kStrict;
  options_.read_only = true;
  remount();
  EXPECT_FALSE(is_set_by_reading(file));
  use(AccessTime::kStrict);
  EXPECT_FALSE(is_set_by_reading(file));
}

}  // namespace
}  // namespace lazyfs::fs
