// Renaming: damaged parents, and many threads that contend for one name.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "test/fsck/sample_volume.h"
#include "test/fs/volume_fixture.h"

namespace lazyfs::fs {
namespace {

// /a is inode 11, /a/b is inode 12, and each calls the other its parent.
TEST(RenameTest, ParentsThatRunInACircleEndAMoveWithAnError) {
  fsck::SampleVolume sample;
  for (const std::uint64_t no : {11, 12}) {
    InodeRecord record;
    record.mode = S_IFDIR | 0755;
    record.links = 2;
    record.parent = InodeNo{23 - no};
    sample.put(key_of(InodeNo{no}, Kind::kInode), encode(record));
  }
  sample.put_entry(1, {InodeNo{11}, 20, 4, "a"});
  sample.put_entry(11, {InodeNo{12}, 1, 4, "b"});
  sample.commit();
  sample.store.reset();

  auto volume = Volume::mount(*sample.device, {.background = false});
  ASSERT_TRUE(volume) << describe(volume.error());
  EXPECT_EQ((*volume)->rename(kRootInode, "dir", InodeNo{12}, "dir", {}).error(), Errc::kItemBad);
  EXPECT_EQ((*volume)->rename(kRootInode, "dir", InodeNo{12}, "b", {.exchange = true}).error(),
            Errc::kItemBad);
  EXPECT_TRUE((*volume)->rename(kRootInode, "dir", kRootInode, "moved", {}));
  ASSERT_TRUE((*volume)->unmount());
}

TEST(RenameTest, NameOfAMissingInodeIsDamage) {
  fsck::SampleVolume sample;
  sample.put_entry(1, {InodeNo{99}, 20, 8, "nothing"});
  sample.commit();
  sample.store.reset();

  auto volume = Volume::mount(*sample.device, {.background = false});
  ASSERT_TRUE(volume) << describe(volume.error());
  EXPECT_EQ((*volume)->lookup(kRootInode, "nothing").error(), Errc::kItemBad);
  EXPECT_EQ((*volume)->unlink(kRootInode, "nothing").error(), Errc::kItemBad);
  EXPECT_EQ((*volume)->rename(kRootInode, "nothing", kRootInode, "b", {}).error(), Errc::kItemBad);
  EXPECT_EQ((*volume)->rename(kRootInode, "file", kRootInode, "nothing", {}).error(),
            Errc::kItemBad);
  ASSERT_TRUE((*volume)->unmount());
}

class ContentionTest : public VolumeTest {
 protected:
  static constexpr int kThreads = 32, kTurns = 200;

  // Runs `turn(thread, turn)` in each of the threads.
  template <class Turn>
  void contend(Turn turn) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&turn, t] {
        for (int i = 0; i < kTurns; ++i) turn(t, i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  void note(Errc error) {
    if (!first_error_) first_error_ = error;
    ++errors_;
  }
  static std::string name_of(int thread) { return "of_" + std::to_string(thread); }

  std::atomic<int> errors_{0};
  std::optional<Errc> first_error_;  // for a message only
};

TEST_F(ContentionTest, EveryRenameOverOneNameSucceeds) {
  create("target");
  contend([&](int thread, int) {
    const auto made = volume_->create(kRootInode, name_of(thread), 0644, {});
    if (!made) return note(made.error());
    volume_->release(made->file);
    const auto renamed = volume_->rename(kRootInode, name_of(thread), kRootInode, "target", {});
    if (!renamed) note(renamed.error());
    volume_->forget(made->attributes.inode, 1);
    const auto found = volume_->lookup(kRootInode, "target");
    if (!found) return note(found.error());
    volume_->forget(found->inode, 1);
  });
  EXPECT_EQ(errors_, 0) << describe(*first_error_);
}

TEST_F(ContentionTest, EveryExchangeOfTwoNamesSucceeds) {
  create("a");
  create("b");
  contend([&](int, int) {
    const auto done = volume_->rename(kRootInode, "a", kRootInode, "b", {.exchange = true});
    if (!done) note(done.error());
  });
  EXPECT_EQ(errors_, 0) << describe(*first_error_);
}

class WhiteoutTest : public VolumeTest {
 protected:
  static constexpr RenameFlags kLeaveWhiteout{.whiteout = Owner{7, 8}};

  InodeNo make_directory(std::string_view name) {
    const auto made = volume_->make_directory(kRootInode, name, 0755, {});
    EXPECT_TRUE(made);
    return made->inode;
  }
  void expect_whiteout(InodeNo parent, std::string_view name) {
    const auto found = volume_->lookup(parent, name);
    ASSERT_TRUE(found) << describe(found.error());
    EXPECT_EQ(found->mode, std::uint32_t{S_IFCHR});
    EXPECT_EQ(found->rdev, 0u);
    EXPECT_EQ(found->links, 1u);
    EXPECT_EQ(found->owner, (Owner{7, 8}));
  }
  std::vector<std::string> names_in(InodeNo directory) {
    std::vector<std::string> names;
    const auto entries = volume_->read_directory(directory, 0, 100);
    for (const DirectoryEntry& entry : *entries) names.push_back(entry.name);
    return names;
  }
};

TEST_F(WhiteoutTest, TakesTheOldName) {
  const InodeNo d = make_directory("d"), file = create("file");
  write(file, 0, "text");
  ASSERT_TRUE(volume_->rename(kRootInode, "file", d, "moved", kLeaveWhiteout));
  expect_whiteout(kRootInode, "file");
  EXPECT_EQ(lookup("moved", d), file);
  lose_power();  // the change was not durable
  EXPECT_EQ(volume_->lookup(kRootInode, "file").error(), Errc::kNotFound);
}

TEST_F(WhiteoutTest, IsDurableWithTheMove) {
  const InodeNo d = make_directory("d");
  create("file");
  ASSERT_TRUE(volume_->rename(kRootInode, "file", d, "moved", kLeaveWhiteout));
  ASSERT_TRUE(volume_->sync());
  lose_power();
  expect_whiteout(kRootInode, "file");
  EXPECT_TRUE(volume_->lookup(lookup("d"), "moved"));
}

TEST_F(WhiteoutTest, StaysInTheDirectoryOfAMoveWithin) {
  create("a");
  ASSERT_TRUE(volume_->rename(kRootInode, "a", kRootInode, "b", kLeaveWhiteout));
  expect_whiteout(kRootInode, "a");
  EXPECT_EQ(names_in(kRootInode).size(), 2u);
}

TEST_F(WhiteoutTest, IsLeftWhenAnotherNameIsReplaced) {
  create("a");
  create("b");
  ASSERT_TRUE(volume_->rename(kRootInode, "a", kRootInode, "b", kLeaveWhiteout));
  expect_whiteout(kRootInode, "a");
  // A whiteout can be replaced by the next move, and leave one in turn.
  ASSERT_TRUE(volume_->rename(kRootInode, "b", kRootInode, "a", kLeaveWhiteout));
  expect_whiteout(kRootInode, "b");
  ASSERT_TRUE(volume_->unlink(kRootInode, "b"));
}

TEST_F(WhiteoutTest, TakesTheNameOfADirectory) {
  const InodeNo d = make_directory("d"), moved = make_directory("moved");
  create("below", moved);
  ASSERT_TRUE(volume_->rename(kRootInode, "moved", d, "moved", kLeaveWhiteout));
  expect_whiteout(kRootInode, "moved");
  EXPECT_EQ(volume_->get_attributes(kRootInode)->links, 3u);
  EXPECT_EQ(volume_->get_attributes(d)->links, 3u);
}

TEST_F(WhiteoutTest, HasTheGroupOfASetGroupIdDirectory) {
  const InodeNo d = make_directory("d");
  ASSERT_TRUE(volume_->set_attributes(d, {.mode = 02755, .gid = 55}));
  create("file", d);
  ASSERT_TRUE(volume_->rename(d, "file", kRootInode, "file", kLeaveWhiteout));
  const auto left = volume_->lookup(d, "file");
  ASSERT_TRUE(left);
  EXPECT_EQ(left->owner, (Owner{7, 55}));
}

TEST_F(WhiteoutTest, NothingIsLeftWhereNothingMoves) {
  create("a");
  create("b");
  const RenameFlags flags{.no_replace = true, .whiteout = Owner{}};
  EXPECT_EQ(volume_->rename(kRootInode, "a", kRootInode, "b", flags).error(), Errc::kExists);
  EXPECT_EQ(volume_->get_attributes(lookup("a"))->mode, std::uint32_t{S_IFREG | 0644});
}

}  // namespace
}  // namespace lazyfs::fs
