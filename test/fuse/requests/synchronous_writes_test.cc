// Writes with O_SYNC, which includes O_DSYNC. The FSYNC that the kernel sends after such a write
// asks for the metadata too. So a sync of the data only was made before the reply to WRITE.
#include "failing_mount.h"

namespace lazyfs::fuse {
namespace {

class SynchronousWrites : public FailingMount {
 protected:
  void SetUp() override {
    FailingMount::SetUp();
    if (!IsSkipped()) mount_failing("nowriteback");
  }
  // How many syncs the write brings.
  int syncs_of_write(int flags, std::size_t size) {
    const int fd = open(at("f").c_str(), O_CREAT | O_WRONLY | flags, 0644);
    const std::string text(size, 'a');
    const int before = faults_->data_syncs;
    EXPECT_EQ(pwrite(fd, text.data(), size, 0), ssize_t(size));
    const int syncs = faults_->data_syncs - before;
    close(fd);
    return syncs;
  }
};

TEST_F(SynchronousWrites, AreDurableBeforeTheReply) {
  EXPECT_EQ(syncs_of_write(O_SYNC, 1), 1);
  EXPECT_EQ(syncs_of_write(O_SYNC, kMaxWriteBytes - 4096), 1);
}

TEST_F(SynchronousWrites, OfTheLargestSizeAreMadeDurableOnlyByTheFsyncThatFollows) {
  EXPECT_EQ(syncs_of_write(O_SYNC, kMaxWriteBytes), 0);
}

TEST_F(SynchronousWrites, AreNotThoseWithoutTheFlag) {
  EXPECT_EQ(syncs_of_write(0, 1), 0);
}

}  // namespace
}  // namespace lazyfs::fuse
