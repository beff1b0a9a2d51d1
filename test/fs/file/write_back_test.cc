// Passes of write-back over the dirty inodes, and where these are in the dirty list afterwards.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "fs/inode/write_back_token.h"
#include "test/fs/file/file_parts.h"

namespace lazyfs::fs {
namespace {

class WriteBackTest : public FilePartsTest {
 protected:
  std::uint64_t dirty_blocks(const InodeRef& inode) {
    ReaderLock lock(inode->mu);
    return inode->buffer->dirty_blocks();
  }
};

// The pass has released the token after a part of the file, and another thread has taken it.
TEST_F(WriteBackTest, AFileThatBecomesBusyInTheMiddleOfItsWriteBackKeepsItsAge) {
  const InodeRef large = make(100), young = make(101);
  const auto begun = clock_.time;
  write(large, 0, kGroupBlocks + 10);
  clock_.time += std::chrono::seconds(3);
  write(young, 0, 10);
  clock_.time += std::chrono::seconds(3);
  std::optional<WriteBackToken> other;
  progress_ = [&] {
    if (!other) other.emplace(large);
  };
  ASSERT_TRUE(write_back_.write_dirty(begun, WriteBack::Which::kNotBusy));
  ASSERT_TRUE(other);
  EXPECT_EQ(dirty_blocks(large), 10u);
  other.reset();
  ASSERT_TRUE(write_back_.write_dirty(begun, WriteBack::Which::kNotBusy));
  EXPECT_EQ(dirty_blocks(large), 0u);
  EXPECT_EQ(dirty_blocks(young), 10u);
  EXPECT_EQ(dirty_.size(), 1u);
  ASSERT_TRUE(write_back_.write_dirty(kEver));
}

}  // namespace
}  // namespace lazyfs::fs
