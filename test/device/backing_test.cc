#include "device/backing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "base/before_wait.h"
#include "test/support/loop_device.h"
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

TEST(BackingTest, TellsOtherFilesAndDevicesFromTheSame) {
  const TestFolder folder;
  const std::string one = (folder.path() / "one").string(), two = (folder.path() / "two").string();
  const Backing file = *Backing::make(one), other = *Backing::make(two);
  EXPECT_TRUE(file.is_same(*file.duplicate()));
  EXPECT_TRUE(file.is_same(*Backing::open(one, true, Backing::Claim::kNone)));
  EXPECT_FALSE(file.is_same(other));
  const auto loop = LoopDevice::make(kBlockBytes), other_loop = LoopDevice::make(kBlockBytes);
  if (!loop || !other_loop) GTEST_SKIP() << "no loop device";
  const auto open = [](const std::string& path) {
    return *Backing::open(path, true, Backing::Claim::kNone);
  };
  EXPECT_TRUE(open(loop->path()).is_same(open(loop->path())));
  EXPECT_FALSE(open(loop->path()).is_same(open(other_loop->path())));
  EXPECT_FALSE(open(loop->path()).is_same(file));
}

TEST(BackingTest, OneOwnerAtATimeClaimsAFile) {
  const TestFolder folder;
  const std::string path = (folder.path() / "image").string();
  {
    const Backing first = *Backing::make(path);
    const auto second = Backing::open(path, OpenOptions{});
    EXPECT_TRUE(!second && second.error() == Errc::kDeviceBusy);
    EXPECT_TRUE(Backing::open(path, OpenOptions{.exclusive = false}));
  }
  EXPECT_TRUE(Backing::open(path, OpenOptions{}));
}

// udev locks a block device while it looks at what the device holds.
TEST(BackingTest, ALockOfUdevDoesNotMakeADeviceBusy) {
  const auto loop = LoopDevice::make(kBlockBytes);
  if (!loop) GTEST_SKIP() << "no loop device";
  const int fd = ::open(loop->path().c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_SH), 0);
  EXPECT_TRUE(Backing::open(loop->path(), OpenOptions{}));
  ::close(fd);
}

TEST(BackingTest, SaysWhereDiscardsAreNotSupported) {
  const TestFolder folder;
  if (::mount("none", folder.path().c_str(), "ramfs", 0, nullptr) != 0) GTEST_SKIP() << "no root";
  {
    Backing backing = *Backing::make((folder.path() / "image").string());
    EXPECT_EQ(backing.become_hole(kBlockBytes), ok());
    EXPECT_EQ(backing.discard(0, kBlockBytes, [] { return true; }), fail(Errc::kUnsupported));
  }
  EXPECT_EQ(::umount2(folder.path().c_str(), MNT_DETACH), 0);
}

TEST(BackingTest, ADiscardIsDonePieceByPieceUntilItMayNotContinue) {
  const TestFolder folder;
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kBytes = 130 * kMiB;
  Backing backing = *Backing::make((folder.path() / "image").string());
  ASSERT_EQ(backing.become_hole(kBytes + kBlockBytes), ok());
  AlignedBuffer block(kBlockBytes);
  std::ranges::fill(block.span(), std::byte{'x'});
  const auto is_hole = [&](std::uint64_t at) {
    EXPECT_EQ(backing.read(at, block.span()), ok());
    return block.data()[0] == std::byte{0};
  };
  const std::vector<std::uint64_t> places{0, 64 * kMiB, 128 * kMiB, kBytes};
  for (const std::uint64_t at : places) ASSERT_EQ(backing.write(at, Piece(block.span())), ok());
  int pieces = 0;
  EXPECT_EQ(backing.discard(0, kBytes, [&] { return pieces++ < 2; }), 128 * kMiB);
  EXPECT_TRUE(is_hole(places[0]) && is_hole(places[1]) && !is_hole(places[2]));
  EXPECT_EQ(backing.discard(0, kBytes, [] { return true; }), kBytes);
  EXPECT_TRUE(is_hole(places[2]) && !is_hole(places[3]));
}

TEST(BackingTest, RefusesSizesThatNoFileCanHave) {
  const TestFolder folder;
  Backing backing = *Backing::make((folder.path() / "image").string());
  EXPECT_EQ(backing.enlarge(UINT64_MAX), fail(Errc::kDeviceNoSpace));
  AlignedBuffer block = AlignedBuffer::zeroed(kBlockBytes);
  ASSERT_EQ(backing.write(0, Piece(block.span())), ok());
  EXPECT_EQ(backing.read(kBlockBytes, block.span()), fail(Errc::kDeviceTruncated));
}

TEST(BackingTest, BecomingAHoleForgetsWhatTheFileHeld) {
  const TestFolder folder;
  Backing backing = *Backing::make((folder.path() / "image").string());
  AlignedBuffer block(kBlockBytes);
  std::ranges::fill(block.span(), std::byte{'x'});
  ASSERT_EQ(backing.write(0, Piece(block.span())), ok());
  ASSERT_EQ(backing.become_hole(kBlockBytes), ok());
  ASSERT_EQ(backing.read(0, block.span()), ok());
  EXPECT_EQ(std::ranges::count(block.span(), std::byte{0}), kBlockBytes);
}

// A loop device or a thin volume has such an end, too.
TEST(BackingTest, SaysOfAnyKindThatItsStoreIsFull) {
  EXPECT_TRUE(describe(Errc::kDeviceNoSpace).contains("device or image file"));
}

}  // namespace
}  // namespace lazyfs::device
