// Orphans that cannot be read or deleted for a while: they are tried again after a pause, while the
// volume is mounted.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "device/memory.h"
#include "mkfs/mkfs.h"
#include "fs/item/schema.h"
#include "fs/volume/mounted_volume.h"
#include "test/fsck/expect_clean.h"
#include "test/meta/forwarding_store.h"
#include "test/support/stats.h"

namespace lazyfs::fs {
namespace {

// Forwards to another store. One of its next reads may fail, or all of them, and its changes.
class ForgetfulStore final : public meta::ForwardingStore {
 public:
  explicit ForgetfulStore(std::unique_ptr<meta::Store> below)
      : ForwardingStore(*below), below_(std::move(below)) {}
  int reads_until_failure = 0;  // the read that brings it to 0 fails
  std::atomic<std::uint64_t> reads = 0;
  bool can_delete = true;

  Result<std::optional<meta::Value>> get(meta::Key key) override {
    return fails() ? fail(Errc::kDeviceRead) : ForwardingStore::get(key);
  }
  Result<std::vector<meta::Item>> scan(meta::Key first, meta::Key last,
                                       std::size_t max_items) override {
    return fails() ? fail(Errc::kDeviceRead) : ForwardingStore::scan(first, last, max_items);
  }
  Result<Seq> try_apply(const meta::Batch& batch, meta::Reserve reserve) override {
    const bool deletes = reserve == meta::Reserve::kDelete && batch.size() > 2;
    return deletes && !can_delete ? fail(Errc::kDeviceRead)
                                  : ForwardingStore::try_apply(batch, reserve);
  }

 private:
  bool fails() {
    ++reads;
    return reads_until_failure > 0 && --reads_until_failure == 0;
  }

  const std::unique_ptr<meta::Store> below_;
};

class AdvancedClock final : public Clock {
 public:
  Timestamp now() override { return system_clock().now(); }
  std::chrono::nanoseconds monotonic() override { return time_.load() + lead; }
  void advance(std::chrono::nanoseconds by) { time_ = time_.load() + by; }
  // By so much the calling thread is ahead of the others.
  static inline thread_local std::chrono::nanoseconds lead{0};

 private:
  std::atomic<std::chrono::nanoseconds> time_{std::chrono::nanoseconds(0)};
};

class OrphanRetryTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {}));
    mount();
  }
  void TearDown() override {
    ASSERT_TRUE(volume_->unmount());
    volume_.reset();
    fsck::expect_clean(*device_);
  }
  void mount(bool background = false) {
    auto below = meta::Store::open(*device_, {.background = false});
    ASSERT_TRUE(below);
    auto store = std::make_unique<ForgetfulStore>(std::move(*below));
    store_ = store.get();
    auto disk = std::make_unique<device::DiscardingDevice>(*device_, true, [](Errc) {});
    const MountOptions options{.background = background};
    volume_ = std::make_unique<MountedVolume>(std::move(disk), options, clock_, std::move(store));
    ASSERT_TRUE(volume_->start({}));
  }
  void lose_power() {
    volume_->shut_down();
    volume_.reset();
    mount();
  }
  InodeNo make(std::string_view name) {
    const auto made = volume_->create(kRootInode, name, 0644, {});
    EXPECT_TRUE(made);
    const InodeNo inode = made->attributes.inode;
    for (std::uint64_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(volume().write(inode, 2 * i * kBlockBytes, kBlock));
    }
    volume_->release(made->file);
    return inode;
  }
  // Deleted, but in use until the power goes.
  void make_orphans() {
    for (const char* name : {"a", "b", "c"}) make(name);
    ASSERT_TRUE(volume_->sync());
    for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(volume_->unlink(kRootInode, name));
    ASSERT_TRUE(volume_->sync());
  }
  // A file of one block, whose truncation is pending when the power goes.
  InodeNo make_truncated() {
    const InodeNo inode = make("truncated");
    EXPECT_TRUE(volume_->sync());
    store_->can_delete = false;
    EXPECT_TRUE(volume_->set_attributes(inode, {.size = kBlockBytes}));
    store_->can_delete = true;
    EXPECT_TRUE(store_->commit());
    return inode;
  }
  std::size_t orphans() {
    const auto key = [](std::uint64_t offset) {
      return key_of(kVolumeOwner, Kind::kOrphan, offset);
    };
    return store_->scan(key(0), key(meta::kMaxOffset), 100)->size();
  }
  void tick_after(std::chrono::nanoseconds pause) {
    clock_.advance(pause);
    volume_->tick();
  }
  // Works for the orphans, and again after a pause. False: there was no such read.
  bool finish_with_failed_read(int nth) {
    store_->reads_until_failure = nth;
    volume_->tick();
    const bool has_failed = std::exchange(store_->reads_until_failure, 0) == 0;
    tick_after(std::chrono::seconds(2));
    return has_failed;
  }
  std::uint64_t to_delete() { return stats_of(*volume_)["inodes_to_delete"].number(); }
  Volume& volume() { return *volume_; }

  const std::vector<std::byte> kBlock{kBlockBytes, std::byte{7}};
  AdvancedClock clock_;
  std::unique_ptr<device::MemoryDevice> device_ = device::MemoryDevice::uniform(64, 128);
  ForgetfulStore* store_ = nullptr;
  std::unique_ptr<MountedVolume> volume_;
};

TEST_F(OrphanRetryTest, AReadThatFailsOnceDelaysOrphansOfEarlierSessions) {
  bool has_failed = true;
  for (int nth = 1; has_failed; ++nth) {
    make_orphans();
    make_truncated();
    lose_power();
    ASSERT_EQ(orphans(), 4u);
    has_failed = finish_with_failed_read(nth);
    EXPECT_EQ(orphans(), 0u) << "read " << nth;
    EXPECT_EQ(to_delete(), 0u);
    ASSERT_TRUE(volume_->unlink(kRootInode, "truncated"));
    tick_after(std::chrono::minutes(1));  // the dirty list may hold it for a while
  }
}

TEST_F(OrphanRetryTest, AReadThatFailsOnceDelaysOrphansOfThisSession) {
  bool has_failed = true;
  for (int nth = 1; has_failed; ++nth) {
    std::vector<InodeNo> inodes;
    for (const char* name : {"a", "b", "c"}) inodes.push_back(make(name));
    ASSERT_TRUE(volume_->sync());
    for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(volume_->unlink(kRootInode, name));
    for (const InodeNo inode : inodes) volume_->forget(inode, 1);
    has_failed = finish_with_failed_read(nth);
    EXPECT_EQ(orphans(), 0u) << "read " << nth;
  }
}

TEST_F(OrphanRetryTest, PausesGrowAndEnd) {
  const InodeNo inode = make("f");
  ASSERT_TRUE(volume_->sync());
  ASSERT_TRUE(volume_->unlink(kRootInode, "f"));
  store_->can_delete = false;
  volume_->forget(inode, 1);
  int seconds = 0;
  for (int tries = 0; to_delete() > 0 || tries == 0; ++seconds) {
    const std::uint64_t reads = store_->reads;
    volume_->tick();
    tries += store_->reads > reads;
    clock_.advance(std::chrono::seconds(1));
    ASSERT_LT(tries, 20) << "after " << seconds << " seconds";
    ASSERT_LT(seconds, 3600);
  }
  EXPECT_GT(seconds, 600);
  store_->can_delete = true;
  EXPECT_EQ(orphans(), 1u);
  lose_power();
  volume_->tick();
  EXPECT_EQ(orphans(), 0u) << "the next mount has not tried again";
}

TEST_F(OrphanRetryTest, WhatIsTriedAgainLaterKeepsNoWriterBusy) {
  make_orphans();
  lose_power();
  store_->reads_until_failure = 1;
  volume_->tick();
  const std::uint64_t reads = store_->reads;
  for (int i = 0; i < 10; ++i) volume_->tick();
  EXPECT_EQ(store_->reads, reads);
  tick_after(std::chrono::seconds(2));
  EXPECT_EQ(orphans(), 0u);
}

// To the volume's threads the last request lies in the future.
TEST_F(OrphanRetryTest, UsersWhoAreNeverQuietDelayADeletionForAWhileOnly) {
  ASSERT_TRUE(volume_->unmount());
  volume_.reset();
  mount(true);
  const InodeNo inode = make("f"), kept = make("kept");
  ASSERT_TRUE(volume_->sync());
  ASSERT_TRUE(volume_->unlink(kRootInode, "f"));
  volume_->forget(inode, 1);
  AdvancedClock::lead = std::chrono::hours(1000);
  std::byte byte{};
  EXPECT_TRUE(volume().read(kept, 0, std::span(&byte, 1), false));
  AdvancedClock::lead = std::chrono::nanoseconds(0);
  EXPECT_EQ(to_delete(), 1u);
  clock_.advance(std::chrono::seconds(30));
  for (int i = 0; i < 3000 && to_delete() > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(to_delete(), 0u);
}

}  // namespace
}  // namespace lazyfs::fs
