// Changes of a file's contents that fail when a part of them is made. The kernel must then show
// what the volume has.
#include <sys/ioctl.h>

#include "failing_mount.h"

namespace lazyfs::fuse {
namespace {

constexpr off_t kPage = 4096;

class FailedChanges : public FailingMount, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    FailingMount::SetUp();
    if (!IsSkipped()) mount_failing(GetParam());
  }
  // A file of 8 pages, all of them in the kernel's cache and in the volume.
  int file_of(char letter, const std::string& name = "f") const {
    const std::string text(8 * kPage, letter);
    const int fd = open(at(name).c_str(), O_RDWR | O_CREAT, 0644);
    EXPECT_EQ(pwrite(fd, text.data(), text.size(), 0), ssize_t(text.size()));
    EXPECT_EQ(fsync(fd), 0);
    EXPECT_EQ(read_page(fd, 7), letter);
    return fd;
  }
  // The letter that fills the page; '?' if it has more than one.
  static char read_page(int fd, off_t page) {
    std::string text(kPage, '?');
    EXPECT_EQ(pread(fd, text.data(), text.size(), page * kPage), kPage);
    return text.find_first_not_of(text[0]) == std::string::npos ? text[0] : '?';
  }
  static bool kernel_takes_sizes() { return std::string(GetParam()).ends_with("nowriteback"); }
  static std::string pages(int fd) {
    std::string letters;
    for (off_t page = 0; page < 8; ++page) letters += read_page(fd, page);
    return letters;
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, FailedChanges,
                         testing::Values("sync", "sync,opens", "sync,nowriteback"));

const std::string kHalf = std::string(4, '\0') + "aaaa";

TEST_P(FailedChanges, APunchThatFailsHalfWayShowsWhatWasPunched) {
  const int fd = file_of('a');
  faults_->ranges = true;
  EXPECT_ERRNO(EIO, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8 * kPage));
  EXPECT_EQ(pages(fd), kHalf);
  close(fd);
}

TEST_P(FailedChanges, ARangeWhoseZeroingFailsHalfWayShowsTheZeros) {
  const int fd = file_of('a');
  faults_->ranges = true;
  EXPECT_ERRNO(EIO, fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 8 * kPage));
  EXPECT_EQ(pages(fd), kHalf);
  close(fd);
}

TEST_P(FailedChanges, ACopyThatFailsHalfWayShowsWhatWasCopied) {
  const int from = file_of('b', "from"), to = file_of('a');
  faults_->ranges = true;
  EXPECT_ERRNO(EIO, int(copy_file_range(from, nullptr, to, nullptr, 8 * kPage, 0)));
  EXPECT_EQ(pages(to), "bbbbaaaa");
  close(from);
  close(to);
}

TEST_P(FailedChanges, APunchWhoseCommitFailsShowsTheHole) {
  const int fd = file_of('a');
  faults_->commits = true;
  EXPECT_ERRNO(EIO, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8 * kPage));
  EXPECT_EQ(pages(fd), std::string(8, '\0'));
  close(fd);
}

TEST_P(FailedChanges, AFileWhoseTruncationFailsHasOneSize) {
  for (const off_t size : {4 * kPage, 16 * kPage}) {
    const int fd = file_of('a', std::to_string(size));
    faults_->commits = true;
    EXPECT_ERRNO(EIO, ftruncate(fd, size));
    struct stat st {};
    ASSERT_EQ(fstat(fd, &st), 0);
    EXPECT_EQ(std::uint64_t(st.st_size), faults_->size.load());
    EXPECT_EQ(st.st_size, kernel_takes_sizes() ? size : 8 * kPage);
    faults_->commits = false;
    close(fd);
  }
}

// Where the kernel caches writes, it takes no size from the volume.
TEST_P(FailedChanges, AFileWhoseGrowthFailsHasOneSize) {
  const int from = file_of('b', "from");
  for (std::atomic<bool>* const fault : {&faults_->commits, &faults_->memory, &faults_->ranges}) {
    for (const bool copies : {false, true}) {
      const int fd = file_of('a');
      *fault = true;
      off_t to = 7 * kPage;
      EXPECT_EQ(copies ? int(copy_file_range(from, nullptr, fd, &to, 8 * kPage, 0))
                       : fallocate(fd, FALLOC_FL_ZERO_RANGE, to, 8 * kPage),
                -1);
      EXPECT_EQ(errno, fault == &faults_->memory ? ENOMEM : EIO);
      *fault = false;
      struct stat st {};
      ASSERT_EQ(fstat(fd, &st), 0);
      EXPECT_EQ(std::uint64_t(st.st_size), faults_->size.load());
      EXPECT_TRUE(kernel_takes_sizes() || st.st_size == 8 * kPage) << st.st_size;
      EXPECT_EQ(read_page(fd, 7), copies ? 'b' : '\0');
      EXPECT_EQ(read_page(fd, 6), 'a');
      close(fd);
      ASSERT_EQ(unlink(at("f").c_str()), 0);
    }
  }
  close(from);
}

TEST_P(FailedChanges, AFileWhoseTruncationFailsHalfWayShowsWhatIsLeft) {
  const int fd = file_of('a');
  faults_->attributes = true;
  EXPECT_ERRNO(EIO, ftruncate(fd, 4 * kPage));
  struct stat st {};
  ASSERT_EQ(fstat(fd, &st), 0);
  EXPECT_EQ(std::uint64_t(st.st_size), faults_->size.load());
  char letter = '?';
  EXPECT_TRUE(comes_true([&] { return pread(fd, &letter, 1, 4 * kPage) == 0 || letter == '\0'; }));
  EXPECT_EQ(read_page(fd, 3), 'a');
  close(fd);
}

}  // namespace
}  // namespace lazyfs::fuse
