#include "fs/file/inline_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lazyfs::fs {
namespace {

using std::chrono::seconds;

class InlineQueueTest : public testing::Test {
 protected:
  void add(std::uint64_t inode, int second) { queue_.add(InodeNo{inode}, seconds(second)); }
  InlineQueue::Entry take() { return *queue_.take(seconds(100), SIZE_MAX); }
  std::vector<std::uint64_t> take_all() {
    std::vector<std::uint64_t> inodes;
    while (queue_.size() > 0) inodes.push_back(take().inode.value);
    return inodes;
  }

  InlineQueue queue_;
};

using Inodes = std::vector<std::uint64_t>;

TEST_F(InlineQueueTest, TheLastAdditionSaysWhoseTurnItIs) {
  for (const std::uint64_t inode : {7, 5, 6}) add(inode, 1);
  add(4, 2);
  add(5, 2);
  EXPECT_EQ(take_all(), (Inodes{7, 6, 4, 5}));
}

TEST_F(InlineQueueTest, OnlyOldEntriesAreTakenUnlessThereAreMany) {
  add(1, 1);
  add(2, 3);
  EXPECT_FALSE(queue_.take(seconds(0), 2));
  EXPECT_EQ(queue_.take(seconds(2), 2)->inode, InodeNo{1});
  EXPECT_FALSE(queue_.take(seconds(2), 1));
  EXPECT_EQ(queue_.take(seconds(2), 0)->inode, InodeNo{2});
  EXPECT_FALSE(queue_.take(seconds(2), 0));
}

TEST_F(InlineQueueTest, WhatIsPutBackStandsWhereItsAgeBelongs) {
  for (const int i : {1, 2, 3, 4}) add(static_cast<std::uint64_t>(i), i);
  const auto first = take(), second = take(), third = take();
  add(2, 5);
  queue_.put_back({.inode = first.inode, .since = seconds(6)});
  queue_.put_back(second);  // was added meanwhile
  queue_.put_back(third);
  EXPECT_EQ(take_all(), (Inodes{3, 4, 2, 1}));
}

}  // namespace
}  // namespace lazyfs::fs
