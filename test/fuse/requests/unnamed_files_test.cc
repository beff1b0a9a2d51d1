// Files that are made without a name (O_TMPFILE).
#include "failing_mount.h"

namespace lazyfs::fuse {
namespace {

class UnnamedFiles : public FailingMount, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    FailingMount::SetUp();
    if (!IsSkipped()) mount_failing(GetParam());
  }
  static bool kernel_sends_closes() { return std::string(GetParam()) == "opens"; }
  bool has_open_files(int count) const {
    return comes_true([this, count] { return faults_->open_files == count; });
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, UnnamedFiles, testing::Values("rw", "opens"));

// Without the option `opens` no request says when a file is closed.
TEST_P(UnnamedFiles, StayOpenInTheVolumeOnlyWhereTheKernelClosesThem) {
  const int fd = open(mnt_.c_str(), O_TMPFILE | O_RDWR, 0600);
  ASSERT_GE(fd, 0) << strerror(errno);
  EXPECT_TRUE(has_open_files(kernel_sends_closes() ? 1 : 0)) << faults_->open_files;
  EXPECT_EQ(pwrite(fd, "text", 4, 0), 4);
  close(fd);
  EXPECT_TRUE(has_open_files(0)) << faults_->open_files;
  EXPECT_TRUE(comes_true([this] { return faults_->dropped == 1; })) << faults_->dropped;
  EXPECT_EQ(faults_->open_files, 0);
}

}  // namespace
}  // namespace lazyfs::fuse
