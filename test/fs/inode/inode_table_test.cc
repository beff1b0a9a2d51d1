// The table keeps few inodes in memory, however many the kernel knows.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "device/memory.h"
#include "fs/inode/inode.h"
#include "fs/namespace/inode_items.h"
#include "mkfs/mkfs.h"

namespace lazyfs::fs {
namespace {

constexpr std::uint64_t kFirst = 100, kInodes = 2000;
constexpr std::size_t kInMemory = 128;

class InodeTableTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {}));
    auto store = meta::Store::open(*device_, {.background = false});
    ASSERT_TRUE(store);
    store_ = std::move(*store);
    for (std::uint64_t i = 0; i < kInodes; ++i) {
      InodeRecord record;
      record.mode = S_IFREG | 0644;
      record.links = 1;
      record.size = i;
      put(i, record);
    }
    table_ = std::make_unique<InodeTable>(
        *store_, [this](Unnamed inode) { unnamed_.push_back(inode.number); }, kInMemory);
  }
  void TearDown() override {
    table_.reset();
    EXPECT_TRUE(store_->close());
  }
  InodeRef get(std::uint64_t i) {
    auto inode = table_->get(InodeNo{kFirst + i});
    EXPECT_TRUE(inode);
    return std::move(*inode);
  }
  // As the kernel's LOOKUP of each.
  void look_all_up() {
    for (std::uint64_t i = 0; i < kInodes; ++i) table_->take_lookup(*get(i));
  }
  // As the kernel's READDIRPLUS.
  void list_all() {
    for (std::uint64_t i = 0; i < kInodes; ++i) EXPECT_EQ(size_of(i), i);
  }
  std::uint64_t size_of(std::uint64_t i) {
    const auto inode = table_->look_up(InodeNo{kFirst + i});
    EXPECT_TRUE(inode);
    ReaderLock lock((*inode)->mu);
    return (*inode)->record.size;
  }
  void expect_stale(std::uint64_t i) {
    const auto found = table_->look_up(InodeNo{kFirst + i});
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error(), Errc::kStale);
  }
  void put(std::uint64_t i, const InodeRecord& record) {
    meta::Batch batch;
    batch.put(key_of(InodeNo{kFirst + i}, Kind::kInode), encode(record));
    ASSERT_TRUE(store_->apply(batch));
  }
  std::uint64_t lookups_of(std::uint64_t i) {
    for (const auto& [number, count] : table_->lookups()) {
      if (number == InodeNo{kFirst + i}) return count;
    }
    return 0;
  }

  std::unique_ptr<device::MemoryDevice> device_ = device::MemoryDevice::uniform(64, 256);
  std::unique_ptr<meta::Store> store_;
  std::vector<InodeNo> unnamed_;
  std::vector<InodeRef> held_;
  std::unique_ptr<InodeTable> table_;
};

TEST_F(InodeTableTest, FewInodesAreInMemoryHoweverManyTheKernelKnows) {
  look_all_up();
  look_all_up();
  EXPECT_LT(table_->size(), 3 * kInMemory);
  EXPECT_EQ(table_->lookups().size(), kInodes);
  for (const auto& [number, count] : table_->lookups()) EXPECT_EQ(count, 2u) << number.value;
}

TEST_F(InodeTableTest, ATableOfVeryFewInodesDropsEachOnce) {
  constexpr std::size_t kOnePerShard = 64;
  table_ = std::make_unique<InodeTable>(*store_, nullptr, kOnePerShard);
  look_all_up();
  look_all_up();
  EXPECT_EQ(table_->lookups().size(), kInodes);
}

TEST_F(InodeTableTest, LookupsAreGivenBackOfInodesThatAreNotInMemory) {
  look_all_up();
  look_all_up();
  for (std::uint64_t i = 0; i < kInodes; ++i) table_->give_back_lookups(InodeNo{kFirst + i}, 1);
  EXPECT_EQ(table_->lookups().size(), kInodes);
  // The kernel may not be right.
  for (std::uint64_t i = 0; i < kInodes; ++i) table_->give_back_lookups(InodeNo{kFirst + i}, 9);
  EXPECT_TRUE(table_->lookups().empty());
  EXPECT_EQ(table_->size(), 0u);
  EXPECT_TRUE(unnamed_.empty());
}

TEST_F(InodeTableTest, AnInodeInUseStaysAndSoDoesOneWithChanges) {
  const InodeRef used = get(0);
  table_->take_lookup(*used);
  {
    const InodeRef changed = get(1);
    table_->take_lookup(*changed);
    WriterLock lock(changed->mu);
    changed->record.size = 12345;
    changed->record_dirty = true;
  }
  for (int i = 0; i < 4; ++i) look_all_up();
  EXPECT_EQ(get(0), used);
  const InodeRef changed = get(1);
  ReaderLock lock(changed->mu);
  EXPECT_EQ(changed->record.size, 12345u);
}

TEST_F(InodeTableTest, AnInodeThatComesBackHasItsLookups) {
  look_all_up();
  for (std::uint64_t i = 0; i < kInodes; ++i) {
    const InodeRef inode = get(i);
    ReaderLock lock(inode->mu);
    EXPECT_EQ(inode->record.size, i);
    EXPECT_EQ(inode->lookups, 1u);
    EXPECT_EQ(inode->references, 2u);
  }
  table_->adopt_lookups(InodeNo{kFirst + kInodes}, 5);
  EXPECT_EQ(lookups_of(kInodes), 5u);
}

// It loses its last name while the kernel knows it.
TEST_F(InodeTableTest, AnInodeWithoutANameStaysUntilTheKernelForgetsIt) {
  {
    const InodeRef inode = get(7);
    table_->take_lookup(*inode);
    WriterLock lock(inode->mu);
    inode->record.links = 0;
  }
  for (int i = 0; i < 4; ++i) look_all_up();
  EXPECT_TRUE(unnamed_.empty());
  table_->give_back_lookups(InodeNo{kFirst + 7}, 5);
  EXPECT_EQ(unnamed_, std::vector{InodeNo{kFirst + 7}});
}

TEST_F(InodeTableTest, AListingBringsNoInodeIntoMemory) {
  const InodeRef used = get(7);
  {
    WriterLock lock(used->mu);
    used->record.size = 12345;
    used->record_dirty = true;
  }
  table_->look_up(InodeNo{kFirst + 7}).value();
  EXPECT_EQ(size_of(7), 12345u);
  for (std::uint64_t i = 100; i < kInodes; ++i) EXPECT_EQ(size_of(i), i);
  EXPECT_EQ(table_->size(), 1u);
  EXPECT_EQ(lookups_of(7), 2u);
  EXPECT_EQ(lookups_of(100), 1u);
  // One that is used afterwards has its lookup.
  EXPECT_EQ(get(100)->lookups, 1u);
}

TEST_F(InodeTableTest, LookupsOfAListingAreGivenBack) {
  list_all();
  list_all();
  for (std::uint64_t i = 0; i < kInodes; ++i) table_->give_back_lookups(InodeNo{kFirst + i}, 2);
  EXPECT_TRUE(table_->lookups().empty());
}

TEST_F(InodeTableTest, WhatIsNotShownGetsNoLookup) {
  InodeRecord unnamed, shared;
  unnamed.mode = S_IFREG;
  shared.mode = kSharedMode;
  shared.links = 1;
  put(1, unnamed);
  meta::Batch orphan;
  put_orphan(orphan, InodeNo{kFirst + 1});
  ASSERT_TRUE(store_->apply(orphan));
  put(2, shared);
  for (const std::uint64_t i : {std::uint64_t{1}, std::uint64_t{2}, kInodes}) expect_stale(i);
  const InodeRef first = get(1), second = get(2);  // nor if they are in memory
  expect_stale(1);
  expect_stale(2);
  EXPECT_TRUE(table_->lookups().empty());
}

// One thread lists, another one uses the inodes meanwhile and changes them.
TEST_F(InodeTableTest, AListingSeesWhatOthersHaveChanged) {
  std::atomic<std::uint64_t> written{0};  // inodes below it have a larger size
  std::jthread writer([&] {
    for (std::uint64_t i = 0; i < kInodes; ++i) {
      const InodeRef inode = get(i);
      WriterLock lock(inode->mu);
      inode->record.size = kInodes + i;
      inode->record_dirty = true;
      held_.push_back(inode);  // as the dirty list
      written.store(i + 1, std::memory_order_release);
    }
  });
  for (std::uint64_t done = 0; done < kInodes;) {
    done = written.load(std::memory_order_acquire);
    for (std::uint64_t i = done > 20 ? done - 20 : 0; i < std::min(done + 20, kInodes); ++i) {
      const std::uint64_t size = size_of(i);
      EXPECT_TRUE(size == kInodes + i || (size == i && i >= done)) << i << " of " << done;
      table_->give_back_lookups(InodeNo{kFirst + i}, 1);
    }
  }
  writer.join();
  EXPECT_TRUE(table_->lookups().empty());
  held_.clear();
}

}  // namespace
}  // namespace lazyfs::fs
