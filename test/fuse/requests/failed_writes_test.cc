// Writes that are refused after write(2) has succeeded: late errors.
#include "failing_mount.h"

namespace lazyfs::fuse {
namespace {

class FailedWrites : public FailingMount, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    FailingMount::SetUp();
    if (IsSkipped()) return;
    mount_failing(GetParam());
    fd_ = open(at("f").c_str(), O_RDWR | O_CREAT, 0644);
    ASSERT_EQ(fsync(fd_), 0);
    ASSERT_EQ(pwrite(fd_, "late", 4, 0), 4);
    faults_->writes = true;
    constexpr unsigned kAll =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    EXPECT_ERRNO(EIO, sync_file_range(fd_, 0, 0, kAll));
    faults_->writes = false;
  }
  void TearDown() override {
    if (fd_ >= 0) close(fd_);
    FailingMount::TearDown();
  }

  int fd_ = -1;
};
INSTANTIATE_TEST_SUITE_P(Modes, FailedWrites, testing::Values("rw", "opens"));

TEST_P(FailedWrites, MakeTheNextWriteFailOnce) {
  EXPECT_ERRNO(EIO, int(pwrite(fd_, "x", 1, 0)));
  EXPECT_EQ(pwrite(fd_, "x", 1, 0), 1);
}

TEST_P(FailedWrites, DoNotMakeOtherCallsFail) {
  struct stat st {};
  EXPECT_EQ(fstat(fd_, &st), 0);
  EXPECT_EQ(lstat(at("f").c_str(), &st), 0);
}

// The error may reach no program: nobody asks before the kernel forgets the file.
TEST_P(FailedWrites, AreCounted) {
  close(fd_);
  fd_ = -1;
  ASSERT_EQ(unlink(at("f").c_str()), 0);
  EXPECT_TRUE(comes_true([this] { return faults_->dropped == 1; }));
  EXPECT_EQ(figure({"files", "late_errors"}), 1u);
}

TEST_P(FailedWrites, AreNotReportedByAWriteAfterAnFsync) {
  EXPECT_EQ(fsync(fd_), 0) << "sync_file_range(2) has reported the error to this descriptor";
  EXPECT_EQ(pwrite(fd_, "x", 1, 0), 1);
}

}  // namespace
}  // namespace lazyfs::fuse
