#include "device/backing.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/before_wait.h"
#include "test/support/result_printer.h"
#include "test/support/test_folder.h"

namespace {
int g_interruptions = 0;  // so many calls of fdatasync() are ended by a signal
}

// Replaces the C library's in this program.
extern "C" int fdatasync(int fd) {
  if (g_interruptions == 0) return static_cast<int>(syscall(SYS_fdatasync, fd));
  --g_interruptions;
  errno = EINTR;
  return -1;
}

namespace lazyfs::device {
namespace {

TEST(BackingTest, ReadsWritesAndSyncSayThatTheyWait) {
  const TestFolder folder;
  const Backing backing = *Backing::make((folder.path() / "image").string());
  AlignedBuffer block = AlignedBuffer::zeroed(kBlockBytes);
  int waits = 0;
  const std::function<void()> count = [&waits] { ++waits; };
  const BeforeWait before_wait(count);
  ASSERT_EQ(backing.write(0, Piece(block.span())), ok());
  EXPECT_EQ(waits, 1);
  ASSERT_EQ(backing.read(0, block.span()), ok());
  EXPECT_EQ(waits, 2);
  ASSERT_EQ(backing.sync(), ok());
  EXPECT_EQ(waits, 3);
}

// As on a network's filesystem: nothing is lost by it.
TEST(BackingTest, SyncIsRepeatedAfterASignal) {
  const TestFolder folder;
  const Backing backing = *Backing::make((folder.path() / "image").string());
  g_interruptions = 2;
  EXPECT_EQ(backing.sync(), ok());
  EXPECT_EQ(g_interruptions, 0);
}

// A loop device or a thin volume has such an end, too.
TEST(BackingTest, SaysOfAnyKindThatItsStoreIsFull) {
  EXPECT_TRUE(describe(Errc::kDeviceNoSpace).contains("device or image file"));
}

}  // namespace
}  // namespace lazyfs::device
