// Immutable and append-only files and directories, and the flags that protect nothing.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <vector>

#include "test/fs/volume_fixture.h"

namespace lazyfs::fs {
namespace {

class FlagsTest : public VolumeTest {
 protected:
  void set_flags(InodeNo inode, std::uint32_t flags) {
    const auto set = volume_->set_attributes(inode, {.flags = flags});
    ASSERT_TRUE(set) << describe(set.error());
    EXPECT_EQ(set->flags, flags);
  }
  std::uint32_t flags_of(InodeNo inode) { return volume_->get_attributes(inode)->flags; }
  InodeNo directory(std::string_view name) {
    return volume_->make_directory(kRootInode, name, 0755, {})->inode;
  }
  Errc error_of_write(InodeNo inode, std::uint64_t offset, std::string_view text) {
    const auto done = volume_->write(inode, offset, bytes_of(text));
    EXPECT_FALSE(done);
    return done ? Errc::kInternal : done.error();
  }
  // Changes that both flags forbid.
  void expect_unchangeable(InodeNo inode) {
    for (const AttributeChange& change : std::vector<AttributeChange>{
             {.mode = 0600}, {.uid = 5}, {.gid = 5}, {.size = 0}, {.access = Timestamp{1, 0}}}) {
      EXPECT_EQ(volume_->set_attributes(inode, change).error(), Errc::kNotPermitted);
    }
    EXPECT_EQ(volume_->set_xattr(inode, "user.a", "b", XattrMode::kAny).error(),
              Errc::kNotPermitted);
    EXPECT_EQ(volume_->remove_xattr(inode, "user.old").error(), Errc::kNotPermitted);
    EXPECT_EQ(volume_->get_xattr(inode, "user.old"), "kept");
    EXPECT_EQ(volume_->punch(inode, 0, 4096, {}).error(), Errc::kNotPermitted);
    EXPECT_EQ(volume_->zero(inode, 0, 4096, {}).error(), Errc::kNotPermitted);
    EXPECT_EQ(volume_->copy_range(lookup("source"), 0, inode, 0, 4, false).error(),
              Errc::kNotPermitted);
    EXPECT_EQ(volume_->link(inode, kRootInode, "link").error(), Errc::kNotPermitted);
    EXPECT_EQ(volume_->unlink(kRootInode, "file").error(), Errc::kNotPermitted);
    EXPECT_EQ(volume_->rename(kRootInode, "file", kRootInode, "other", {}).error(),
              Errc::kNotPermitted);
    EXPECT_EQ(volume_->rename(kRootInode, "source", kRootInode, "file", {}).error(),
              Errc::kNotPermitted);
    EXPECT_EQ(
        volume_->rename(kRootInode, "source", kRootInode, "file", {.exchange = true}).error(),
        Errc::kNotPermitted);
  }
  InodeNo make_file(std::string_view contents) {
    const InodeNo file = create("file");
    write(file, 0, contents);
    EXPECT_TRUE(volume_->set_xattr(file, "user.old", "kept", XattrMode::kAny));
    write(create("source"), 0, "source");
    return file;
  }
};

TEST_F(FlagsTest, AreKeptAcrossMountsAndCrashes) {
  const InodeNo file = create("file");
  set_flags(file, kAllFlags);
  set_flags(kRootInode, kNoDump | kAppendOnly);
  remount();
  EXPECT_EQ(flags_of(lookup("file")), kAllFlags);
  EXPECT_EQ(flags_of(kRootInode), kNoDump | kAppendOnly);
  set_flags(lookup("file"), kNoDump);
  ASSERT_TRUE(volume_->sync());
  lose_power();
  EXPECT_EQ(flags_of(lookup("file")), kNoDump);
}

TEST_F(FlagsTest, ChangeTheTimeOfChange) {
  const InodeNo file = create("file");
  const Timestamp before = volume_->get_attributes(file)->change;
  set_flags(file, kNoDump);
  EXPECT_GT(volume_->get_attributes(file)->change, before);
}

TEST_F(FlagsTest, AnImmutableFileStaysAsItIs) {
  const InodeNo file = make_file("contents");
  set_flags(file, kImmutable);
  const Attributes before = *volume_->get_attributes(file);
  EXPECT_EQ(error_of_write(file, 0, "x"), Errc::kNotPermitted);
  EXPECT_EQ(error_of_write(file, 8, "x"), Errc::kNotPermitted);
  EXPECT_EQ(error_of_write(file, 0, "contents"), Errc::kNotPermitted);
  expect_unchangeable(file);
  for (const AttributeChange& change :
       std::vector<AttributeChange>{{.access_now = true}, {.modification_now = true}}) {
    EXPECT_EQ(volume_->set_attributes(file, change).error(), Errc::kNotPermitted);
  }
  // As the kernel sends it for writes before the flag was set.
  EXPECT_TRUE(volume_->set_attributes(file, {.modification = Timestamp{5, 0}}));
  const Attributes after = *volume_->get_attributes(file);
  EXPECT_EQ(after.modification, before.modification);
  EXPECT_EQ(after.change, before.change);
  EXPECT_EQ(read(file), "contents");

  set_flags(file, 0);
  write(file, 0, "x");
  EXPECT_TRUE(volume_->unlink(kRootInode, "file"));
}

TEST_F(FlagsTest, AnAppendOnlyFileGrows) {
  const InodeNo file = make_file("one\n");
  set_flags(file, kAppendOnly);
  EXPECT_EQ(error_of_write(file, 0, "ONE\n"), Errc::kNotPermitted);
  EXPECT_EQ(error_of_write(file, 3, "two\n"), Errc::kNotPermitted);
  expect_unchangeable(file);
  write(file, 4, "two\n");
  write(file, 0, "one\ntwo\nthree\n");  // a page of the kernel's cache, with what came before
  // As the kernel sends it for touch(1).
  EXPECT_TRUE(volume_->set_attributes(file, {.access = Timestamp{1, 0},
                                             .modification = Timestamp{5, 0},
                                             .access_now = true}));
  EXPECT_TRUE(volume_->set_attributes(file, {.modification = Timestamp{5, 0}}));
  remount();
  EXPECT_EQ(error_of_write(lookup("file"), 0, "ONE\n"), Errc::kNotPermitted);
  EXPECT_EQ(read(lookup("file")), "one\ntwo\nthree\n");
}

TEST_F(FlagsTest, PagesOfAnAppendOnlyFileMayComeInAnyOrder) {
  const InodeNo file = make_file("head");
  set_flags(file, kAppendOnly);
  const std::string large(3 << 20, 'x');
  write(file, 1 << 20, std::string_view(large).substr(0, 2 << 20));
  write(file, 0, "head" + large.substr(0, (1 << 20) - 4));
  EXPECT_EQ(read(file, 0, 4 << 20), "head" + large.substr(4));
  // The change is past the first of the pieces that are compared.
  std::string other = "head" + large.substr(4);
  other[(2 << 20) + 5] = 'y';
  EXPECT_EQ(error_of_write(file, 0, other), Errc::kNotPermitted);
}

TEST_F(FlagsTest, AnImmutableDirectoryKeepsItsEntries) {
  const InodeNo inside = directory("directory");
  create("old", inside);
  const InodeNo file = create("file");
  set_flags(inside, kImmutable);
  EXPECT_EQ(volume_->create(inside, "new", 0644, {}).error(), Errc::kNotPermitted);
  EXPECT_EQ(volume_->create_unnamed(inside, 0644, {}).error(), Errc::kNotPermitted);
  EXPECT_EQ(volume_->make_directory(inside, "new", 0755, {}).error(), Errc::kNotPermitted);
  EXPECT_EQ(volume_->make_symlink(inside, "new", "x", {}).error(), Errc::kNotPermitted);
  EXPECT_EQ(volume_->link(file, inside, "new").error(), Errc::kNotPermitted);
  EXPECT_EQ(volume_->unlink(inside, "old").error(), Errc::kNotPermitted);
  EXPECT_EQ(volume_->rename(inside, "old", kRootInode, "new", {}).error(), Errc::kNotPermitted);
  EXPECT_EQ(volume_->rename(kRootInode, "file", inside, "new", {}).error(), Errc::kNotPermitted);
  EXPECT_EQ(volume_->rename(kRootInode, "file", inside, "old", {}).error(), Errc::kNotPermitted);
  EXPECT_EQ(volume_->remove_directory(kRootInode, "directory").error(), Errc::kNotPermitted);
  write(lookup("old", inside), 0, "contents of its files may change");
}

TEST_F(FlagsTest, AnAppendOnlyDirectoryTakesEntriesAndKeepsThem) {
  const InodeNo inside = directory("directory");
  create("old", inside);
  create("file");
  set_flags(inside, kAppendOnly);
  create("new", inside);
  EXPECT_TRUE(volume_->rename(kRootInode, "file", inside, "moved", {}));
  create("file");
  EXPECT_EQ(volume_->unlink(inside, "old").error(), Errc::kNotPermitted);
  EXPECT_EQ(volume_->rename(inside, "old", inside, "other", {}).error(), Errc::kNotPermitted);
  EXPECT_EQ(volume_->rename(kRootInode, "file", inside, "old", {}).error(), Errc::kNotPermitted);
}

TEST_F(FlagsTest, NewFilesInheritTheFlagsThatProtectNothing) {
  set_flags(kRootInode, kAllFlags & ~kImmutable);
  EXPECT_EQ(flags_of(create("file")), kNoDump | kNoAccessTime);
  EXPECT_EQ(flags_of(directory("directory")), kNoDump | kNoAccessTime);
  EXPECT_EQ(flags_of(volume_->make_symlink(kRootInode, "link", "x", {})->inode),
            kNoDump | kNoAccessTime);
}

TEST_F(FlagsTest, AFileWithoutAccessTimesKeepsItsTime) {
  const InodeNo file = create("file");
  write(file, 0, "x");
  const Timestamp before = volume_->get_attributes(file)->access;
  set_flags(file, kNoAccessTime);
  read(file);
  EXPECT_EQ(volume_->get_attributes(file)->access, before);
  set_flags(file, 0);
  read(file);
  EXPECT_GT(volume_->get_attributes(file)->access, before);
}

TEST_F(FlagsTest, ThoseThatDoNotExistOrDoNotFitAreRefused) {
  EXPECT_EQ(volume_->set_attributes(create("file"), {.flags = 16}).error(), Errc::kNotSupported);
  const InodeNo fifo = volume_->make_node(kRootInode, "fifo", S_IFIFO | 0644, 0, {})->inode;
  EXPECT_EQ(volume_->set_attributes(fifo, {.flags = kImmutable}).error(), Errc::kNotSupported);
  set_flags(fifo, kNoDump);
}

}  // namespace
}  // namespace lazyfs::fs
