// Deletion, truncation and copies on a volume whose metadata log has little room, or none for a
// while.
#include "fs/file/orphan_cleanup.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <utility>

#include "device/memory.h"
#include "mkfs/mkfs.h"
#include "fs/volume/mounted_volume.h"
#include "fs/item/schema.h"
#include "test/fs/file/file_parts.h"
#include "test/fsck/expect_clean.h"
#include "test/meta/forwarding_store.h"
#include "test/support/stats.h"

namespace lazyfs::fs {
namespace {

// Forwards to another store, but refuses batches that are larger than its limits of the moment.
class CrowdedStore final : public meta::ForwardingStore {
 public:
  explicit CrowdedStore(std::unique_ptr<meta::Store> below)
      : ForwardingStore(*below), below_(std::move(below)) {}
  std::size_t room = SIZE_MAX;           // most entries of a batch that deletes
  std::size_t ordinary_room = SIZE_MAX;  // of any other
  bool commits = true;
  std::optional<InodeNo> damaged;     // no batch changes its item
  std::optional<InodeNo> unreadable;  // none of its items can be read
  int waits = 0;                      // so many batches that delete must wait
  // Are called once: before a batch that deletes is tried, and before bands are given back.
  std::function<void()> before_delete, before_give_back;
  std::function<void()> after_apply;  // once: after the next batch is applied

  Result<std::vector<meta::Item>> scan(meta::Key first, meta::Key last,
                                       std::size_t max_items) override {
    const bool is_lost = unreadable && first.owner == unreadable->value;
    return is_lost ? fail(Errc::kNodeChecksumBad) : ForwardingStore::scan(first, last, max_items);
  }
  Result<Seq> apply(const meta::Batch& batch, meta::Reserve reserve) override {
    if (meets_damage(batch)) return fail(Errc::kNodeChecksumBad);
    return has_room(batch, reserve) ? ForwardingStore::apply(batch, reserve)
                                    : fail(Errc::kLogFull);
  }
  Result<Seq> try_apply(const meta::Batch& batch, meta::Reserve reserve) override {
    if (reserve == meta::Reserve::kDelete && before_delete) std::exchange(before_delete, {})();
    if (meets_damage(batch)) return fail(Errc::kNodeChecksumBad);
    if (reserve == meta::Reserve::kDelete && waits-- > 0) return fail(Errc::kMustWait);
    if (!has_room(batch, reserve)) return fail(Errc::kLogFull);
    const auto applied = ForwardingStore::try_apply(batch, reserve);
    if (after_apply) std::exchange(after_apply, {})();
    return applied;
  }
  Result<> give_back_bands() override {
    if (before_give_back) std::exchange(before_give_back, {})();
    return ForwardingStore::give_back_bands();
  }
  Result<> commit() override {
    return commits ? ForwardingStore::commit() : fail(Errc::kDeviceWrite);
  }

 private:
  bool has_room(const meta::Batch& batch, meta::Reserve reserve) const {
    return batch.size() <= (reserve == meta::Reserve::kDelete ? room : ordinary_room);
  }

  bool meets_damage(const meta::Batch& batch) const {
    return damaged && std::ranges::any_of(batch.entries(), [&](const auto& entry) {
             return entry.key == key_of(*damaged, Kind::kInode);
           });
  }

  const std::unique_ptr<meta::Store> below_;
};

// Whether a thread of this process waits for a lock.
bool sleeps(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string word;
  for (int i = 0; i < 3; ++i) stat >> word;
  return word == "S";
}

class OrphanCleanupTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {}));
    mount(SIZE_MAX);
  }
  // With room in the log for batches of so many entries that delete, and none for others unless
  // it is SIZE_MAX.
  void mount(std::size_t room) {
    auto store = meta::Store::open(*device_, {.background = false});
    ASSERT_TRUE(store);
    auto crowded = std::make_unique<CrowdedStore>(std::move(*store));
    store_ = crowded.get();
    store_->room = room;
    if (room < SIZE_MAX) store_->ordinary_room = 0;
    auto disk = std::make_unique<device::DiscardingDevice>(*device_, true, [](Errc) {});
    volume_ = std::make_unique<MountedVolume>(std::move(disk), options_, system_clock(),
                                              std::move(crowded));
    ASSERT_TRUE(volume_->start({}));
  }
  // As the power cut leaves it.
  void mount_again(std::size_t room) {
    volume_->shut_down();
    ASSERT_TRUE(volume_->unmount());
    volume_.reset();
    mount(room);
  }
  void give_room() { store_->room = store_->ordinary_room = SIZE_MAX; }
  void TearDown() override {
    EXPECT_TRUE(volume_->unmount());
    volume_.reset();
    fsck::expect_clean(*device_);
  }
  // A file of `pieces` extents.
  InodeNo make(std::string_view name, std::uint64_t pieces) {
    auto made = volume_->create(kRootInode, name, 0644, {});
    EXPECT_TRUE(made);
    const InodeNo inode = made->attributes.inode;
    const std::vector<std::byte> block(kBlockBytes, std::byte{7});
    for (std::uint64_t i = 0; i < pieces; ++i) {
      EXPECT_TRUE(static_cast<Volume&>(*volume_).write(inode, 2 * i * kBlockBytes, block));
    }
    EXPECT_TRUE(volume_->sync());  // the dirty list lets go of it
    volume_->release(made->file);
    return inode;
  }
  // While a batch that deletes may have `room` entries.
  void remove(std::string_view name, InodeNo inode, std::size_t room) {
    store_->room = SIZE_MAX;
    ASSERT_TRUE(volume_->unlink(kRootInode, name));
    store_->room = room;
    volume_->forget(inode, 1);
    volume_->tick();
  }
  std::uint64_t to_delete() {
    return stats_of(*volume_)["inodes_to_delete"].number();
  }
  Volume& volume() { return *volume_; }
  void write(InodeNo inode, std::uint64_t block, char letter) {
    const std::string text(kBlockBytes, letter);
    EXPECT_TRUE(volume().write(inode, block * kBlockBytes, std::as_bytes(std::span(text))));
  }
  Result<> truncate(InodeNo inode, std::uint64_t blocks) {
    const auto done = volume_->set_attributes(inode, {.size = blocks * kBlockBytes});
    return done ? ok() : fail(done.error());
  }
  // A letter for each block, that of its first byte; '0' for a zero.
  std::string letters(InodeNo inode) {
    std::string text(std::size_t{64} * kBlockBytes, '?'), found;
    const auto length = volume().read(inode, 0, std::as_writable_bytes(std::span(text)));
    EXPECT_TRUE(length);
    for (std::size_t at = 0; at < length.value_or(0); at += kBlockBytes) {
      found += text[at] == 0 ? '0' : text[at];
    }
    return found;
  }
  std::uint64_t blocks_reserved() {
    return stat_of(*volume_, "space", "reserved_blocks");
  }
  std::uint64_t bands(const char* which) {
    return stat_of(*volume_, "data", which);
  }
  bool has_item(InodeNo inode) { return store_->get(key_of(inode, Kind::kInode))->has_value(); }

  const MountOptions options_{.background = false};
  std::unique_ptr<device::MemoryDevice> device_ = device::MemoryDevice::uniform(64, 128);
  CrowdedStore* store_ = nullptr;
  std::unique_ptr<MountedVolume> volume_;
};

TEST_F(OrphanCleanupTest, RetriesADeletionForWhichTheLogHadNoRoom) {
  const InodeNo first = make("first", 10), second = make("second", 10);
  remove("first", first, 0);
  EXPECT_EQ(to_delete(), 1u);
  remove("second", second, 0);
  EXPECT_EQ(to_delete(), 2u);
  EXPECT_TRUE(has_item(first));
  volume_->tick();
  EXPECT_EQ(to_delete(), 2u) << "tried again and again";
  store_->room = SIZE_MAX;
  volume_->tick();
  EXPECT_EQ(to_delete(), 0u);
  EXPECT_FALSE(has_item(first));
  EXPECT_FALSE(has_item(second));
}

TEST_F(OrphanCleanupTest, AnInodeThatCannotBeDeletedKeepsNoOther) {
  std::vector<InodeNo> inodes;
  for (int i = 0; i < 20; ++i) inodes.push_back(make("f" + std::to_string(i), 2));
  const InodeNo bad = inodes[13];
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(volume_->unlink(kRootInode, "f" + std::to_string(i)));
  }
  store_->damaged = bad;
  for (const InodeNo inode : inodes) volume_->forget(inode, 1);
  volume_->tick();
  EXPECT_EQ(to_delete(), 1u);
  for (const InodeNo inode : inodes) EXPECT_EQ(has_item(inode), inode == bad) << inode.value;
  ASSERT_TRUE(volume_->sync());
  mount_again(SIZE_MAX);
  volume_->tick();
  EXPECT_FALSE(has_item(bad)) << "the next mount has not retried";
}

// The first inode was postponed before the batch with the second one had to wait.
TEST_F(OrphanCleanupTest, ABatchMayWaitAfterAnInodeThatCannotBeRead) {
  const InodeNo first = make("first", 2), second = make("second", 2);
  for (const char* name : {"first", "second"}) ASSERT_TRUE(volume_->unlink(kRootInode, name));
  store_->unreadable = first;
  store_->waits = 1;
  for (const InodeNo inode : {first, second}) volume_->forget(inode, 1);
  volume_->tick();
  EXPECT_LT(store_->waits, 1);
  EXPECT_EQ(to_delete(), 1u);
  EXPECT_FALSE(has_item(second));
  store_->unreadable.reset();
}

TEST_F(OrphanCleanupTest, DeletesInSmallStepsWhileThereIsLittleRoom) {
  const InodeNo inode = make("pieces", 600);
  remove("pieces", inode, 64);
  EXPECT_EQ(to_delete(), 0u);
  EXPECT_FALSE(has_item(inode));
}

// Else the collector, which gets the inodes of the blocks that it moves, would change items being
// deleted.
TEST_F(OrphanCleanupTest, AQueuedInodeIsStaleForEveryThread) {
  const InodeNo inode = make("f", 10);
  remove("f", inode, 0);
  EXPECT_EQ(volume_->get_attributes(inode).error(), Errc::kStale);
  EXPECT_EQ(to_delete(), 1u);
  store_->room = SIZE_MAX;
  volume_->tick();
  EXPECT_FALSE(has_item(inode));
}

TEST_F(OrphanCleanupTest, WhatIsQueuedCountsAsFree) {
  make("kept", 1);
  const auto before = volume_->space();
  const InodeNo inode = make("f", 10);
  write(inode, 40, 'd');  // dirty
  ASSERT_TRUE(volume_->unlink(kRootInode, "f"));
  volume_->forget(inode, 1);
  const auto queued = volume_->space();
  EXPECT_EQ(to_delete(), 1u);
  EXPECT_TRUE(has_item(inode)) << "asking for the space has deleted it";
  EXPECT_EQ(queued->free_blocks, before->free_blocks);
  EXPECT_EQ(queued->total_files - queued->free_files, before->total_files - before->free_files);
  volume_->tick();
  EXPECT_EQ(to_delete(), 0u);
  EXPECT_EQ(volume_->space()->free_blocks, before->free_blocks);
}

// As making and removing names do.
TEST_F(OrphanCleanupTest, AttributesAreChangedAndBlocksCopiedOnceADeletionHasMadeRoom) {
  const InodeNo source = make("source", 2), target = make("target", 2);
  const auto expect_makes_room = [&](const auto& change) {
    const InodeNo deleted = make("deleted", 2);
    ASSERT_TRUE(volume_->unlink(kRootInode, "deleted"));
    volume_->forget(deleted, 1);
    store_->ordinary_room = 0;
    store_->before_delete = [this] { give_room(); };
    const auto changed = change();
    EXPECT_TRUE(changed) << describe(changed.error());
    EXPECT_FALSE(has_item(deleted));
    give_room();
  };
  expect_makes_room([&] { return volume_->set_attributes(source, {.mode = 0600}); });
  expect_makes_room([&] { return volume_->set_attributes(source, {.uid = 1}); });
  expect_makes_room([&] { return volume_->set_attributes(source, {.access_now = true}); });
  expect_makes_room([&] {
    return volume_->copy_range(source, 0, target, 0, 3 * kBlockBytes, false);
  });
}

TEST_F(OrphanCleanupTest, AFullLogLetsNamesAndAttributesBeRemoved) {
  const InodeNo inode = make("f", 2);
  ASSERT_TRUE(volume_->make_directory(kRootInode, "d", 0755, {}));
  ASSERT_TRUE(volume_->set_xattr(inode, "user.a", "value", {}));
  store_->ordinary_room = 0;
  EXPECT_EQ(volume_->create(kRootInode, "g", 0644, {}).error(), Errc::kLogFull);
  EXPECT_TRUE(volume_->remove_xattr(inode, "user.a"));
  EXPECT_TRUE(volume_->remove_directory(kRootInode, "d"));
  EXPECT_TRUE(volume_->unlink(kRootInode, "f"));
  give_room();
}

TEST_F(OrphanCleanupTest, AFullLogLetsGarbageBeCollected) {
  const InodeNo dead = make("dead", 100), kept = make("kept", 60);  // together more than a band
  const std::string contents = letters(kept);
  remove("dead", dead, SIZE_MAX);
  store_->ordinary_room = 0;
  EXPECT_TRUE(volume_->collect_garbage());
  EXPECT_EQ(bands("bands_cleaned"), 1u);
  EXPECT_EQ(bands("bands_reset"), 1u);
  EXPECT_EQ(letters(kept), contents);
  give_room();
}

// The deletion is smaller than what the write has to free first.
TEST_F(OrphanCleanupTest, AWritePastAPendingTruncationSucceedsOnceADeletionHasMadeRoom) {
  const InodeNo inode = make("f", 8), deleted = make("deleted", 0);
  ASSERT_TRUE(volume_->unlink(kRootInode, "deleted"));
  store_->room = 2;
  EXPECT_TRUE(truncate(inode, 1));
  volume_->forget(deleted, 1);
  store_->room = 3;
  store_->after_apply = [this] { give_room(); };
  write(inode, 6, 'w');
  EXPECT_FALSE(has_item(deleted));
  EXPECT_EQ(letters(inode), "\a00000w");
}

// The blocks are with the thread that deletes: to find the queue empty does not mean a full disk.
TEST_F(OrphanCleanupTest, AWriterWaitsForTheDeletionOfAnotherThread) {
  const InodeNo large = make("large", 1), other = make("other", 1);
  const std::vector<std::byte> piece(std::size_t{16} * kBlockBytes, std::byte{7});
  std::uint64_t end = 16 * kBlockBytes;
  while (volume().write(large, end, piece)) end += piece.size();
  ASSERT_TRUE(volume_->sync());
  ASSERT_TRUE(volume_->unlink(kRootInode, "large"));
  std::latch deleting(1), looking(1);
  store_->before_delete = [&] {
    deleting.count_down();
    looking.wait();
    // A writer that does not wait for this thread has given up by then.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  std::jthread deleter([&] {
    volume_->forget(large, 1);
    volume_->tick();
  });
  deleting.wait();
  store_->before_give_back = [&] { looking.count_down(); };
  const auto written = volume().write(other, 16 * kBlockBytes, piece);
  EXPECT_TRUE(written) << describe(written.error());
}

// A store whose scans fail. The first one calls a function before that.
class UnreadableStore final : public meta::ForwardingStore {
 public:
  UnreadableStore(meta::Store& inner, std::function<void()> before_scan)
      : ForwardingStore(inner), before_scan_(std::move(before_scan)) {}
  Result<std::vector<meta::Item>> scan(meta::Key, meta::Key, std::size_t) override {
    if (before_scan_) std::exchange(before_scan_, {})();
    return fail(Errc::kNodeChecksumBad);
  }

 private:
  std::function<void()> before_scan_;
};

using OrphanWaitTest = FilePartsTest;

TEST_F(OrphanWaitTest, AWriterThatWaitsLearnsThatNothingWasDeleted) {
  std::function<void()> begin_to_wait;
  UnreadableStore store(*store_, [&] { begin_to_wait(); });
  OrphanCleanup cleanup(store, inodes_, maps_, bands_, clock_, [] {});
  const InodeNo inode = make(100)->no;
  cleanup.add({.number = inode, .held = {}});
  std::atomic<pid_t> writer = 0;
  std::atomic<bool> is_done = false, has_gained = false;
  std::thread waiter;
  begin_to_wait = [&] {
    waiter = std::thread([&] {
      writer = gettid();
      has_gained = cleanup.await_others();
      is_done = true;
    });
    while (!is_done && (writer == 0 || !sleeps(writer))) std::this_thread::yield();
  };
  cleanup.run();
  waiter.join();
  EXPECT_FALSE(has_gained);
  EXPECT_EQ(cleanup.waiting().inodes, 1u);
  cleanup.drop_all();
}

// ---- What earlier sessions have left ------------------------------------------------------------

TEST_F(OrphanCleanupTest, TheNextMountDeletesWhatIsStillQueued) {
  const InodeNo inode = make("f", 10);
  remove("f", inode, 0);
  EXPECT_TRUE(has_item(inode));
  ASSERT_TRUE(store_->commit());
  mount_again(SIZE_MAX);
  volume_->tick();
  EXPECT_FALSE(has_item(inode));
}

// Its record is in the tree, and the file is not in use yet.
TEST_F(OrphanCleanupTest, AFileThatIsBeingMadeIsNotTakenForOneOfAnEarlierSession) {
  const InodeNo old = make("old", 1);
  ASSERT_TRUE(volume_->unlink(kRootInode, "old"));
  ASSERT_TRUE(volume_->sync());
  mount_again(SIZE_MAX);
  make("other", 1);  // takes inode numbers
  store_->after_apply = [this] { volume_->tick(); };
  const auto made = volume_->create_unnamed(kRootInode, 0600, {});
  ASSERT_TRUE(made);
  EXPECT_FALSE(has_item(old));
  const InodeNo inode = made->attributes.inode;
  EXPECT_TRUE(has_item(inode));
  write(inode, 0, 'a');
  volume_->tick();
  EXPECT_EQ(letters(inode), "a");
  volume_->release(made->file);
  volume_->forget(inode, 1);
  volume_->tick();
  EXPECT_FALSE(has_item(inode));
}

// By its handle, whose numbers can be guessed, another thread finds it once the tree has it.
TEST_F(OrphanCleanupTest, AFileThatIsBeingMadeWaitsForWhoReachesItByItsHandle) {
  const InodeNo next{make("other", 1).value + 1};
  std::atomic<pid_t> other = 0;
  std::atomic<bool> is_done = false;
  std::thread changer;
  store_->after_apply = [&] {
    changer = std::thread([&] {
      other = gettid();
      EXPECT_TRUE(volume_->lookup_inode(next));
      EXPECT_TRUE(volume_->set_attributes(next, {.mode = 0640}));
      is_done = true;
    });
    while (!is_done && (other == 0 || !sleeps(other))) std::this_thread::yield();
  };
  const auto made = volume_->create(kRootInode, "new", 0600, {});
  changer.join();
  ASSERT_TRUE(made);
  ASSERT_EQ(made->attributes.inode, next);
  EXPECT_EQ(volume_->get_attributes(next)->mode, S_IFREG | 0640u);
  volume_->release(made->file);
  volume_->forget(next, 2);
}

// However many there are: the background does it.
TEST_F(OrphanCleanupTest, AMountDoesNotWaitForDeletionsAndTruncations) {
  std::vector<InodeNo> inodes;
  for (int i = 0; i < 200; ++i) inodes.push_back(make(std::to_string(i), 1));
  const InodeNo truncated = make("truncated", 8);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(volume_->unlink(kRootInode, std::to_string(i)));
  store_->room = 2;
  EXPECT_TRUE(truncate(truncated, 1));
  ASSERT_TRUE(store_->commit());
  mount_again(SIZE_MAX);
  for (const InodeNo inode : inodes) EXPECT_TRUE(has_item(inode));
  EXPECT_EQ(letters(truncated), "\a");
  write(truncated, 6, 'w');
  EXPECT_EQ(letters(truncated), "\a00000w") << "truncated blocks are read again";
  volume_->tick();
  for (const InodeNo inode : inodes) EXPECT_FALSE(has_item(inode));
  EXPECT_EQ(to_delete(), 0u);
}

// Each mount gets a little further.
TEST_F(OrphanCleanupTest, AnUnmountDoesNotWaitForWhatEarlierSessionsHaveLeft) {
  const InodeNo inode = make("f", 10);
  ASSERT_TRUE(volume_->unlink(kRootInode, "f"));
  ASSERT_TRUE(store_->commit());
  mount_again(SIZE_MAX);
  ASSERT_TRUE(volume_->unmount());
  fsck::expect_clean(*device_);
  mount(SIZE_MAX);
  EXPECT_TRUE(has_item(inode));
  volume_->tick();
  EXPECT_FALSE(has_item(inode));
}

// The orphan record of an inode in use, met by the recovery.
TEST_F(OrphanCleanupTest, AnInodeInUseIsNotTakenForOneOfAnEarlierSession) {
  const InodeNo old = make("old", 1);
  ASSERT_TRUE(volume_->unlink(kRootInode, "old"));
  const InodeNo used = make("used", 1);
  ASSERT_TRUE(volume_->sync());
  mount_again(SIZE_MAX);
  ASSERT_TRUE(volume_->lookup(kRootInode, "used"));
  ASSERT_TRUE(volume_->unlink(kRootInode, "used"));
  volume_->tick();
  EXPECT_FALSE(has_item(old));
  EXPECT_EQ(letters(used), "\a");
  volume_->forget(used, 1);
  volume_->tick();
  EXPECT_FALSE(has_item(used));
}

// ---- Truncating ---------------------------------------------------------------------------------

TEST_F(OrphanCleanupTest, ATruncationThatTheLogHasNoRoomForChangesNothing) {
  const InodeNo inode = make("f", 2);  // blocks 0 and 2
  write(inode, 2, 'b');
  write(inode, 3, 'c');
  store_->room = 0;
  EXPECT_EQ(truncate(inode, 1).error(), Errc::kLogFull);
  EXPECT_EQ(letters(inode), "\a0bc");
  store_->room = SIZE_MAX;
  EXPECT_TRUE(volume_->fsync(inode, nullptr, false));
  EXPECT_EQ(letters(inode), "\a0bc");
  EXPECT_EQ(blocks_reserved(), 0u);
}

TEST_F(OrphanCleanupTest, AGrowthThatTheLogHasNoRoomForReservesNothingForEver) {
  const InodeNo inode = make("f", 1);
  ASSERT_TRUE(volume_->set_attributes(inode, {.size = 100}));
  store_->room = 0;
  EXPECT_EQ(truncate(inode, 2).error(), Errc::kLogFull);
  store_->room = SIZE_MAX;
  EXPECT_TRUE(volume_->sync());
  EXPECT_EQ(blocks_reserved(), 0u);
  EXPECT_EQ(letters(inode), "\a");
}

// Only the new size fits into the log; the blocks past it are freed later.
TEST_F(OrphanCleanupTest, BlocksOfAPendingTruncationAreNeverReadAgain) {
  const InodeNo grown = make("grown", 8), written = make("written", 8), synced = make("synced", 8);
  const InodeNo source = make("source", 1), target = make("target", 8);
  store_->room = 2;
  for (const InodeNo inode : {grown, written, synced, target}) {
    EXPECT_TRUE(truncate(inode, 1));
    EXPECT_EQ(letters(inode), "\a");
  }
  store_->room = SIZE_MAX;
  EXPECT_TRUE(truncate(grown, 6));
  EXPECT_EQ(letters(grown), "\a00000");
  write(written, 6, 'w');
  EXPECT_EQ(letters(written), "\a00000w");
  EXPECT_TRUE(volume_->copy_range(source, 0, target, 5 * kBlockBytes, kBlockBytes, false));
  EXPECT_EQ(letters(target), "\a0000\a");
  EXPECT_TRUE(volume_->fsync(synced, nullptr, false));
  EXPECT_EQ(volume_->get_attributes(synced)->blocks_512, kBlockBytes / 512);
}

TEST_F(OrphanCleanupTest, DataIsRecordedWhileTheLogHasNoRoomToFinishATruncation) {
  const InodeNo inode = make("f", 8);
  store_->room = 2;
  EXPECT_TRUE(truncate(inode, 4));
  write(inode, 0, 'w');
  EXPECT_TRUE(volume_->fsync(inode, nullptr, false));
  write(inode, 1, 'v');
  EXPECT_TRUE(volume_->sync());
  EXPECT_EQ(stat_of(*volume_, "data", "write_back_errors"), 0u);
  EXPECT_GT(volume_->get_attributes(inode)->blocks_512, 4 * kBlockBytes / 512);
  mount_again(2);
  EXPECT_EQ(letters(inode), "wv\a0");
  give_room();
  volume_->tick();
  ASSERT_TRUE(volume_->sync());
  EXPECT_EQ(volume_->get_attributes(inode)->blocks_512, 3 * kBlockBytes / 512);
}

TEST_F(OrphanCleanupTest, AMountFinishesAPendingTruncationWhenTheLogHasRoom) {
  const InodeNo grown = make("grown", 8), synced = make("synced", 8);
  store_->room = 2;
  for (const InodeNo inode : {grown, synced}) EXPECT_TRUE(truncate(inode, 1));
  store_->room = 0;
  ASSERT_TRUE(store_->commit());
  mount_again(0);
  EXPECT_EQ(letters(grown), "\a");
  EXPECT_EQ(truncate(grown, 6).error(), Errc::kLogFull) << "freed blocks would be read";
  give_room();
  EXPECT_TRUE(truncate(grown, 6));
  EXPECT_EQ(letters(grown), "\a00000");
  volume_->tick();
  ASSERT_TRUE(volume_->sync());  // making room has tried it before, so it is young to write-back
  EXPECT_EQ(volume_->get_attributes(synced)->blocks_512, kBlockBytes / 512);
}

TEST_F(OrphanCleanupTest, FinishingATruncationChangesNoTimes) {
  const InodeNo inode = make("f", 8);
  store_->room = 2;
  EXPECT_TRUE(truncate(inode, 1));
  ASSERT_TRUE(store_->commit());
  const auto before = volume_->get_attributes(inode);
  mount_again(SIZE_MAX);
  volume_->tick();
  const auto after = volume_->get_attributes(inode);
  ASSERT_TRUE(before && after);
  EXPECT_EQ(after->blocks_512, kBlockBytes / 512);
  EXPECT_EQ(after->modification, before->modification);
  EXPECT_EQ(after->change, before->change);
}

// A band with unrecorded blocks is set aside until the log has room for a record of them.
TEST_F(OrphanCleanupTest, AMountWorksWhileTheLogHasNoRoomToRecordLostBlocks) {
  const InodeNo kept = make("kept", 2);
  const std::uint64_t bad = bands("bad_bands");
  const InodeNo lost = make("lost", 0);
  write(lost, 0, 'l');
  store_->room = store_->ordinary_room = 0;
  EXPECT_FALSE(volume_->fsync(lost, nullptr, false));  // appended, and not recorded
  mount_again(0);
  EXPECT_EQ(letters(kept), "\a0\a");
  EXPECT_GT(bands("bad_bands"), bad);
  give_room();
  volume_->tick();
  EXPECT_EQ(bands("bad_bands"), bad) << "emptied and reset";
  EXPECT_EQ(letters(kept), "\a0\a");
}

// A band that has nothing live is reset by the mount, its logs end when there is room for that.
TEST_F(OrphanCleanupTest, AMountWorksWhileTheLogHasNoRoomToEndABandsLogs) {
  const InodeNo inode = make("f", 100);
  ASSERT_TRUE(volume_->unlink(kRootInode, "f"));
  volume_->forget(inode, 1);
  store_->commits = false;  // else the band would be reset
  volume_->tick();
  store_->commits = true;
  ASSERT_TRUE(store_->commit());
  mount_again(0);
  EXPECT_GT(bands("bad_bands"), 0u);
  give_room();
  volume_->tick();
  EXPECT_EQ(bands("bad_bands"), 0u);
}

// Until then an unnamed file is to be deleted, and from then on its end is to be freed.
TEST_F(OrphanCleanupTest, AnUnnamedFileGetsANameWhileItsTruncationIsPending) {
  const auto made = volume_->create_unnamed(kRootInode, 0644, {});
  ASSERT_TRUE(made);
  const InodeNo inode = made->attributes.inode;
  for (std::uint64_t i = 0; i < 8; ++i) write(inode, 2 * i, 'a');
  ASSERT_TRUE(volume_->sync());
  store_->room = 2;
  EXPECT_TRUE(truncate(inode, 1));
  ASSERT_TRUE(volume_->link(inode, kRootInode, "name"));
  ASSERT_TRUE(volume_->fsync_directory(kRootInode));
  volume_->release(made->file);
  volume_->shut_down();
}

// ---- Writing back -------------------------------------------------------------------------------

// The bands are not at fault: none is set aside, or given up after a few failures.
TEST_F(OrphanCleanupTest, ALogWithoutRoomForWhatIsWrittenCostsNoBand) {
  const InodeNo inode = make("f", 2);
  store_->ordinary_room = 0;
  for (int i = 0; i < 5; ++i) {
    write(inode, 0, 'a');
    write(inode, 5, 'b');
    EXPECT_EQ(volume_->sync().error(), Errc::kLogFull);
    EXPECT_EQ(bands("bad_bands"), 0u);
  }
  store_->ordinary_room = SIZE_MAX;
  EXPECT_TRUE(volume_->sync());
  EXPECT_EQ(letters(inode), "a0\a00b");
}

TEST_F(OrphanCleanupTest, ALogWithoutAnyRoomCostsNoBandForLong) {
  const InodeNo inode = make("f", 2);
  for (int i = 0; i < 5; ++i) {
    store_->room = store_->ordinary_room = 0;
    write(inode, 0, 'a');
    EXPECT_EQ(volume_->sync().error(), Errc::kLogFull);
    EXPECT_EQ(bands("bad_bands"), 1u);
    store_->room = store_->ordinary_room = SIZE_MAX;
    volume_->tick();
    EXPECT_EQ(bands("bad_bands"), 0u);
  }
  EXPECT_TRUE(volume_->sync());
  EXPECT_EQ(letters(inode), "a0\a");
}

// ---- Copying ------------------------------------------------------------------------------------

TEST_F(OrphanCleanupTest, ACopyThatFailsLeavesItsTargetAsLongAsItWas) {
  const InodeNo source = make("source", 1), target = make("target", 1);
  ASSERT_TRUE(volume_->set_attributes(target, {.size = 100}));
  store_->ordinary_room = 4;
  EXPECT_EQ(volume_->copy_range(source, 0, target, 5 * kBlockBytes, kBlockBytes, false).error(),
            Errc::kLogFull);
  EXPECT_EQ(volume_->get_attributes(target)->size, 100u);
  store_->ordinary_room = SIZE_MAX;
  EXPECT_TRUE(volume_->copy_range(source, 0, target, 5 * kBlockBytes, kBlockBytes, false));
  EXPECT_EQ(letters(target), "\a0000\a");
}

}  // namespace
}  // namespace lazyfs::fs
