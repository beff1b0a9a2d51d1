#include "device/backing.h"

#include <gtest/gtest.h>

#include <string>

#include "base/before_wait.h"
#include "test/support/result_printer.h"
#include "test/support/test_folder.h"

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

// A loop device or a thin volume has such an end, too.
TEST(BackingTest, SaysOfAnyKindThatItsStoreIsFull) {
  EXPECT_TRUE(describe(Errc::kDeviceNoSpace).contains("device or image file"));
}

}  // namespace
}  // namespace lazyfs::device
