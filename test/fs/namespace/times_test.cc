// Times of change: one that was shown differs from the next (fs/inode/inode.h: change_time()).
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <functional>
#include <vector>

#include "fs/namespace/acl.h"
#include "test/fs/volume_fixture.h"

namespace lazyfs::fs {
namespace {

// A coarse clock that stands still, and a fine one in steps of a nanosecond.
class ManualClock final : public Clock {
 public:
  Timestamp now() override { return times_.coarse(kTick); }
  Timestamp now_after(Timestamp shown) override {
    if (now() > shown) return now();
    ++fine_readings;
    return times_.fine({kTick.seconds, kTick.nanoseconds + 1});
  }
  std::chrono::nanoseconds monotonic() override { return {}; }
  int fine_readings = 0;

 private:
  static constexpr Timestamp kTick{1'700'000'000, 500};
  MultigrainTimes times_;
};

class TimesTest : public VolumeTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {}, clock_));
    auto volume = Volume::mount(faulty_, options_, clock_);
    ASSERT_TRUE(volume);
    volume_ = std::move(*volume);
  }
  InodeNo make_directory(std::string_view name) {
    const auto made = volume_->make_directory(kRootInode, name, 0755, {});
    EXPECT_TRUE(made);
    return made->inode;
  }
  Attributes show(InodeNo inode) {
    const auto attributes = volume_->get_attributes(inode);
    EXPECT_TRUE(attributes);
    return *attributes;
  }
  // `change` gives the inode a change time later than the one that was shown before it.
  void expect_seen(InodeNo inode, const std::function<bool()>& change) {
    const Attributes before = show(inode);
    EXPECT_TRUE(change());
    EXPECT_GT(show(inode).change, before.change);
  }

  ManualClock clock_;
};

TEST_F(TimesTest, EveryChangeOfAFileThatWasLookedAtIsSeen) {
  const InodeNo file = create("a");
  expect_seen(file, [&] { return volume_->write(file, 0, bytes_of("x")).has_value(); });
  EXPECT_EQ(show(file).modification, show(file).change);
  expect_seen(file, [&] { return volume_->set_attributes(file, {.size = 5}).has_value(); });
  expect_seen(file, [&] { return volume_->set_attributes(file, {.mode = 0600}).has_value(); });
  expect_seen(file, [&] {
    return volume_->set_xattr(file, "user.a", "1", XattrMode::kAny).has_value();
  });
  expect_seen(file, [&] { return volume_->remove_xattr(file, "user.a").has_value(); });
  expect_seen(file, [&] {  // only the mode changes
    const std::string list = encode(Acl{
        {AclTag::kUserObject, 6}, {AclTag::kGroupObject, 4}, {AclTag::kOther, 0}});
    return volume_->set_xattr(file, kAccessAcl, list, XattrMode::kAny).has_value();
  });
  expect_seen(file, [&] { return volume_->punch(file, 0, 3, {.keep_size = true}).has_value(); });
  expect_seen(file, [&] { return volume_->link(file, kRootInode, "b").has_value(); });
  expect_seen(file, [&] {
    return volume_->rename(kRootInode, "a", kRootInode, "c", {}).has_value();
  });
  expect_seen(file, [&] { return volume_->unlink(kRootInode, "b").has_value(); });
}

TEST_F(TimesTest, EveryChangeOfADirectoryThatWasLookedAtIsSeen) {
  expect_seen(kRootInode, [&] { return create("a").value != 0; });
  EXPECT_EQ(show(kRootInode).modification, show(kRootInode).change);
  expect_seen(kRootInode,
              [&] { return volume_->make_directory(kRootInode, "d", 0755, {}).has_value(); });
  expect_seen(kRootInode,
              [&] { return volume_->rename(kRootInode, "a", kRootInode, "b", {}).has_value(); });
  expect_seen(kRootInode, [&] { return volume_->remove_directory(kRootInode, "d").has_value(); });
  expect_seen(kRootInode, [&] { return volume_->unlink(kRootInode, "b").has_value(); });
}

TEST_F(TimesTest, AMoveIsSeenInAllInodesThatItChanges) {
  const InodeNo from = make_directory("from"), to = make_directory("to");
  const InodeNo moved = create("a", from), replaced = create("b", to);
  ASSERT_TRUE(volume_->link(replaced, kRootInode, "kept"));
  const auto expect_all_seen = [&](RenameFlags flags) {
    const std::array inodes{from, to, moved, replaced};
    std::vector<Attributes> before;
    for (const InodeNo inode : inodes) before.push_back(show(inode));
    ASSERT_TRUE(volume_->rename(from, "a", to, "b", flags));
    for (std::size_t i = 0; i < inodes.size(); ++i) {
      const Attributes now = show(inodes[i]);
      EXPECT_GT(now.change, before[i].change) << i;
      const bool is_directory = S_ISDIR(now.mode);
      EXPECT_EQ(now.modification, is_directory ? now.change : before[i].modification) << i;
    }
  };
  expect_all_seen({.exchange = true});
  expect_all_seen({});
}

TEST_F(TimesTest, ALinkAndARemovalAreSeenInDirectoryAndInode) {
  const InodeNo file = create("file"), directory = make_directory("directory");
  expect_seen(directory, [&] { return volume_->link(file, directory, "again").has_value(); });
  expect_seen(directory, [&] { return volume_->unlink(directory, "again").has_value(); });
  EXPECT_EQ(show(directory).modification, show(directory).change);
  expect_seen(directory,
              [&] { return volume_->remove_directory(kRootInode, "directory").has_value(); });
}

TEST_F(TimesTest, ChangesThatNobodyLooksAtTakeTheCoarseClock) {
  const InodeNo file = create("a");
  write(file, 0, "x");  // creating has shown it
  const int before = clock_.fine_readings;
  for (int i = 0; i < 10; ++i) write(file, 0, "x");
  EXPECT_EQ(clock_.fine_readings, before);
  show(file);
  for (int i = 0; i < 10; ++i) write(file, 0, "x");
  EXPECT_EQ(clock_.fine_readings, before + 1);
}

TEST_F(TimesTest, TimesAreSetToGivenOnesOrToNow) {
  const InodeNo file = create("a");
  const Timestamp access{5, 6}, modification{-7, 8}, change{9, 10};
  ASSERT_TRUE(volume_->set_attributes(
      file, {.access = access, .modification = modification, .change = change}));
  EXPECT_EQ(show(file).access, access);
  EXPECT_EQ(show(file).modification, modification);
  EXPECT_EQ(show(file).change, change);
  ASSERT_TRUE(volume_->set_attributes(file, {.access_now = true, .modification_now = true}));
  EXPECT_GT(show(file).change, change);
  EXPECT_EQ(show(file).access, show(file).change);
  EXPECT_EQ(show(file).modification, show(file).change);
}

// The kernel sets them by a request of its own.
TEST_F(TimesTest, DataFromTheKernelsCacheLeavesTheTimes) {
  const InodeNo file = create("a");
  const Attributes before = show(file);
  EXPECT_TRUE(volume_->write(file, 0, bytes_of("x"), {.keep_times = true}));
  EXPECT_EQ(show(file).size, 1u);
  EXPECT_EQ(show(file).modification, before.modification);
  EXPECT_EQ(show(file).change, before.change);
}

TEST_F(TimesTest, AChangeIsNotBeforeAnEarlierOneOfAnotherFile) {
  const InodeNo a = create("a"), b = create("b");
  for (int i = 0; i < 5; ++i) {
    write(a, 0, "x");
    const Timestamp first = show(a).change;
    write(b, 0, "x");
    EXPECT_GE(show(b).change, first);
  }
}

TEST_F(TimesTest, AChangeAfterTheInodeLeftMemoryIsSeen) {
  const InodeNo file = create("a");
  const Timestamp shown = show(file).change;
  ASSERT_TRUE(volume_->sync());
  volume_->forget(file, 1);
  write(file, 0, "x");
  EXPECT_GT(show(file).change, shown);
}

}  // namespace
}  // namespace lazyfs::fs
