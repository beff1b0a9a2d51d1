// Requests that change names on a mount with `dirsync` or `sync`, and whose commit fails: the call
// fails, but the volume has made the change. The kernel must then show what the volume has.
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <thread>

#include "failing_mount.h"

namespace lazyfs::fuse {
namespace {

class FailedNames : public FailingMount, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    FailingMount::SetUp();
    if (!IsSkipped()) mount_failing(GetParam());
  }
  // Four new inodes, and a link to the file `f`.
  void make_names() {
    write("f", "text");
    faults_->commits = true;
    EXPECT_ERRNO(EIO, mkdir(at("directory").c_str(), 0755));
    EXPECT_ERRNO(EIO, mknod(at("node").c_str(), S_IFIFO | 0644, 0));
    EXPECT_ERRNO(EIO, symlink("f", at("symlink").c_str()));
    EXPECT_ERRNO(EIO, link(at("f").c_str(), at("link").c_str()));
    EXPECT_ERRNO(EIO, open(at("file").c_str(), O_CREAT | O_WRONLY, 0644));
    for (const char* name : {"directory", "node", "symlink", "link", "file"}) {
      EXPECT_TRUE(appears(name)) << name;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, FailedNames, testing::Values("dirsync", "sync", "dirsync,opens"));

TEST_P(FailedNames, ThatWereMadeAppear) {
  make_names();
  EXPECT_EQ(status_of("f").st_nlink, 2u);
}

// Otherwise the volume would keep their inodes and their blocks until it is unmounted.
TEST_P(FailedNames, ThatWereMadeAndRemovedLeaveNothing) {
  make_names();
  faults_->commits = false;
  EXPECT_EQ(rmdir(at("directory").c_str()), 0);
  for (const char* name : {"node", "symlink", "link", "file", "f"}) {
    EXPECT_EQ(unlink(at(name).c_str()), 0) << name;
  }
  EXPECT_TRUE(comes_true([this] { return faults_->dropped == 5; })) << faults_->dropped;
  EXPECT_TRUE(comes_true([this] { return faults_->open_files == 0; })) << faults_->open_files;
}

TEST_P(FailedNames, ThatWereRemovedVanish) {
  write("file", "text");
  ASSERT_EQ(mkdir(at("directory").c_str(), 0755), 0);
  faults_->commits = true;
  EXPECT_ERRNO(EIO, unlink(at("file").c_str()));
  EXPECT_ERRNO(EIO, rmdir(at("directory").c_str()));
  EXPECT_TRUE(vanishes("file"));
  EXPECT_TRUE(vanishes("directory"));
}

TEST_P(FailedNames, ChangeTheLinkCountOfTheirFile) {
  write("f", "text");
  ASSERT_EQ(link(at("f").c_str(), at("g").c_str()), 0);
  write("other", "text");
  const auto links = [this] { return status_of("f").st_nlink; };
  ASSERT_EQ(links(), 2u);
  faults_->commits = true;
  EXPECT_ERRNO(EIO, link(at("f").c_str(), at("h").c_str()));
  EXPECT_EQ(links(), 3u);
  EXPECT_ERRNO(EIO, unlink(at("g").c_str()));
  EXPECT_EQ(links(), 2u);
  EXPECT_TRUE(appears("h"));
  EXPECT_ERRNO(EIO, rename(at("other").c_str(), at("h").c_str()));
  EXPECT_EQ(links(), 1u);
}

TEST_P(FailedNames, ThatWereMovedHaveMoved) {
  write("a", "text");
  ASSERT_EQ(mkdir(at("d").c_str(), 0755), 0);
  EXPECT_FALSE(exists("d/b"));
  faults_->commits = true;
  EXPECT_ERRNO(EIO, rename(at("a").c_str(), at("d/b").c_str()));
  EXPECT_TRUE(vanishes("a"));
  EXPECT_TRUE(appears("d/b"));
}

TEST_P(FailedNames, ThatWereExchangedAreExchanged) {
  write("a", "of a");
  write("b", "of b");
  faults_->commits = true;
  EXPECT_ERRNO(EIO, renameat2(AT_FDCWD, at("a").c_str(), AT_FDCWD, at("b").c_str(),
                              RENAME_EXCHANGE));
  EXPECT_TRUE(comes_true([&] { return read("a") == "of b"; }));
  EXPECT_TRUE(comes_true([&] { return read("b") == "of a"; }));
}

TEST_P(FailedNames, ForLackOfMemoryDoNotEndTheDaemon) {
  write("f", "text");
  write("old", "text");
  ASSERT_EQ(mkdir(at("d").c_str(), 0755), 0);
  faults_->memory = true;
  EXPECT_ERRNO(ENOMEM, mkdir(at("new").c_str(), 0755));
  EXPECT_ERRNO(ENOMEM, unlink(at("f").c_str()));
  EXPECT_ERRNO(ENOMEM, rmdir(at("d").c_str()));
  EXPECT_ERRNO(ENOMEM, rename(at("old").c_str(), at("moved").c_str()));
  EXPECT_TRUE(appears("new") && appears("moved"));
  EXPECT_TRUE(vanishes("f") && vanishes("d") && vanishes("old"));
}

TEST_P(FailedNames, DoNotMeanThatAttributesAreCommittedToo) {
  write("f", "text");
  faults_->commits = true;
  EXPECT_EQ(chmod(at("f").c_str(), 0600) == 0, std::string(GetParam()) != "sync");
}

TEST_P(FailedNames, AreNotDroppedWhenNothingHasChanged) {
  ASSERT_EQ(mkdir(at("d").c_str(), 0755), 0);
  write("d/f", "text");
  EXPECT_ERRNO(ENOTEMPTY, rmdir(at("d").c_str()));
  EXPECT_ERRNO(EEXIST, mkdir(at("d").c_str(), 0755));
  EXPECT_EQ(read("d/f"), "text");
}

TEST_P(FailedNames, ThatWereCommittedHaveTheTimeOfTheCommit) {
  constexpr unsigned kCommitUs = 20'000;
  faults_->commit_us = kCommitUs;
  EXPECT_EQ(mkdir(at("d").c_str(), 0755), 0);
  EXPECT_EQ(rename(at("d").c_str(), at("e").c_str()), 0);
  EXPECT_EQ(rmdir(at("e").c_str()), 0);
  for (const char* operation : {"mkdir", "rename", "rmdir"}) {
    const std::uint64_t longest_ns = figure({"operation_times", operation, "max_ns"});
    EXPECT_GE(longest_ns, kCommitUs * std::uint64_t{1000}) << operation;
  }
}

// chattr holds the directory's lock in the kernel while it waits for the daemon's side thread, and
// a name is dropped under this lock.
TEST_P(FailedNames, InADirectoryWhoseFlagsChangeMeanwhile) {
  ASSERT_EQ(mkdir(at("d").c_str(), 0755), 0);
  faults_->commits = true;
  std::thread changer([this] {
    const int fd = open(at("d").c_str(), O_RDONLY | O_DIRECTORY);
    int flags = FS_NODUMP_FL;
    for (int i = 0; i < 500; ++i) ioctl(fd, FS_IOC_SETFLAGS, &flags);
    close(fd);
  });
  for (int i = 0; i < 500; ++i) {
    EXPECT_ERRNO(EIO, mkdir(at("d/" + std::to_string(i)).c_str(), 0755));
  }
  changer.join();
  EXPECT_TRUE(appears("d/499"));
}

}  // namespace
}  // namespace lazyfs::fuse
