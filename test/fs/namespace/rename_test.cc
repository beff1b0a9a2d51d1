// Renaming: links and parents, what is refused, damaged parents, many threads at one name.
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

// Names of an inode that counts no link, and of the directory itself.
TEST(RenameTest, NameOfADamagedInodeIsNeitherMovedNorReplaced) {
  fsck::SampleVolume sample;
  InodeRecord record;
  record.mode = S_IFREG | 0644;
  record.links = 0;
  sample.put(key_of(InodeNo{11}, Kind::kInode), encode(record));
  sample.put_entry(1, {InodeNo{11}, 20, 8, "unlinked"});
  sample.put_entry(3, {InodeNo{3}, 20, 4, "self"});
  sample.commit();
  sample.store.reset();

  auto volume = Volume::mount(*sample.device, {.background = false});
  ASSERT_TRUE(volume) << describe(volume.error());
  const InodeNo dir{3};
  EXPECT_EQ((*volume)->rename(kRootInode, "file", kRootInode, "unlinked", {}).error(),
            Errc::kItemBad);
  EXPECT_EQ((*volume)->unlink(kRootInode, "unlinked").error(), Errc::kItemBad);
  EXPECT_EQ((*volume)->rename(dir, "self", kRootInode, "moved", {}).error(), Errc::kItemBad);
  EXPECT_EQ((*volume)->rename(kRootInode, "file", dir, "self", {.exchange = true}).error(),
            Errc::kItemBad);
  EXPECT_EQ((*volume)->unlink(dir, "self").error(), Errc::kItemBad);
  EXPECT_EQ((*volume)->get_attributes(InodeNo{11}).error(), Errc::kItemBad);
  ASSERT_TRUE((*volume)->sync());
  ASSERT_TRUE((*volume)->unmount());
  volume->reset();
  sample.open();
  const auto kept = sample.store->get(key_of(InodeNo{11}, Kind::kInode));
  ASSERT_TRUE(kept);
  EXPECT_TRUE(*kept) << "deleted, although it has a name";
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

class MoveTest : public VolumeTest {
 protected:
  InodeNo make_directory(std::string_view name, InodeNo parent = kRootInode) {
    const auto made = volume_->make_directory(parent, name, 0755, {});
    EXPECT_TRUE(made);
    return made->inode;
  }
  std::uint32_t links_of(InodeNo inode) { return volume_->get_attributes(inode)->links; }

  // The fixture's check at the end compares link counts and parents with the tree.
  InodeNo from_ = {}, to_ = {};
  void SetUp() override {
    VolumeTest::SetUp();
    from_ = make_directory("from");
    to_ = make_directory("to");
  }
};

TEST_F(MoveTest, ADirectoryTakesItsLinkAlong) {
  const InodeNo moved = make_directory("a", from_);
  ASSERT_TRUE(volume_->rename(from_, "a", to_, "b", {}));
  EXPECT_EQ(links_of(from_), 2u);
  EXPECT_EQ(links_of(to_), 3u);
  EXPECT_EQ(volume_->parent_of(moved), to_);
}

TEST_F(MoveTest, ADirectoryThatReplacesOneEndsItsLink) {
  make_directory("a", from_);
  const InodeNo replaced = make_directory("b", to_);
  ASSERT_TRUE(volume_->rename(from_, "a", to_, "b", {}));
  EXPECT_EQ(links_of(from_), 2u);
  EXPECT_EQ(links_of(to_), 3u);
  EXPECT_EQ(links_of(replaced), 0u);
  volume_->forget(replaced, 1);
  volume_->tick();
  EXPECT_EQ(volume_->get_attributes(replaced).error(), Errc::kStale);
}

TEST_F(MoveTest, ExchangedDirectoriesChangeTheirParents) {
  const InodeNo a = make_directory("a", from_), b = make_directory("b", to_);
  ASSERT_TRUE(volume_->rename(from_, "a", to_, "b", {.exchange = true}));
  EXPECT_EQ(volume_->parent_of(a), to_);
  EXPECT_EQ(volume_->parent_of(b), from_);
  EXPECT_EQ(links_of(from_), 3u);
  EXPECT_EQ(links_of(to_), 3u);
}

TEST_F(MoveTest, ADirectoryThatIsExchangedForAFileTakesItsLinkAlong) {
  const InodeNo directory = make_directory("a", from_), file = create("b", to_);
  ASSERT_TRUE(volume_->rename(from_, "a", to_, "b", {.exchange = true}));
  EXPECT_EQ(links_of(from_), 2u);
  EXPECT_EQ(links_of(to_), 3u);
  EXPECT_EQ(lookup("a", from_), file);
  ASSERT_TRUE(volume_->rename(from_, "a", to_, "b", {.exchange = true}));  // and back
  EXPECT_EQ(links_of(from_), 3u);
  EXPECT_EQ(links_of(to_), 2u);
  EXPECT_EQ(volume_->parent_of(directory), from_);
}

TEST_F(MoveTest, NoExchangePutsADirectoryIntoItself) {
  const InodeNo inner = make_directory("inner", to_);
  create("file", inner);
  EXPECT_EQ(volume_->rename(inner, "file", kRootInode, "to", {.exchange = true}).error(),
            Errc::kCrossDirectoryLoop);
  EXPECT_EQ(volume_->rename(kRootInode, "to", inner, "file", {.exchange = true}).error(),
            Errc::kCrossDirectoryLoop);
}

TEST_F(MoveTest, AnExchangeTakesTwoNames) {
  create("a");
  EXPECT_EQ(volume_->rename(kRootInode, "a", kRootInode, "b", {.exchange = true}).error(),
            Errc::kNotFound);
  EXPECT_EQ(volume_->rename(kRootInode, "b", kRootInode, "a", {.exchange = true}).error(),
            Errc::kNotFound);
}

TEST_F(MoveTest, NothingHappensBetweenTwoNamesOfOneFile) {
  const InodeNo file = create("a");
  ASSERT_TRUE(volume_->link(file, from_, "b"));
  ASSERT_TRUE(volume_->rename(kRootInode, "a", from_, "b", {}));
  ASSERT_TRUE(volume_->rename(kRootInode, "a", from_, "b", {.exchange = true}));
  EXPECT_EQ(lookup("a"), file);
  EXPECT_EQ(lookup("b", from_), file);
  EXPECT_EQ(links_of(file), 2u);
}

TEST_F(MoveTest, AFileOfAnotherTypeTakesAName) {
  create("file");
  ASSERT_TRUE(volume_->make_symlink(kRootInode, "symlink", "target", {}));
  ASSERT_TRUE(volume_->rename(kRootInode, "symlink", kRootInode, "file", {}));
  const auto entries = volume_->read_directory(kRootInode, 0, 100);
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ(entries->back().mode, std::uint32_t{S_IFLNK});
}

TEST_F(MoveTest, AReplacedFileIsDeletedAfterItsLastUse) {
  create("a");
  const InodeNo replaced = create("b");
  write(replaced, 0, "open");
  ASSERT_TRUE(volume_->rename(kRootInode, "a", kRootInode, "b", {}));
  EXPECT_EQ(read(replaced), "open");
  ASSERT_TRUE(volume_->sync());
  lose_power();  // the mount knows that it is to be deleted
  volume_->tick();
  EXPECT_EQ(volume_->get_attributes(replaced).error(), Errc::kStale);
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
