// No lock that a reader may need is held while a change waits for a commit.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/json.h"
#include "device/discarding.h"
#include "device/forwarding.h"
#include "fs/volume/mounted_volume.h"
#include "test/fs/volume_fixture.h"
#include "test/meta/forwarding_store.h"

namespace lazyfs::fs {
namespace {

// A test that would wait for ever fails instead.
template <class Function>
void in_time(const Function& function) {
  auto done = std::async(std::launch::async, function);
  if (done.wait_for(std::chrono::seconds(60)) == std::future_status::ready) return;
  std::cerr << "a reader waits for a change that waits for a commit\n";
  std::abort();
}

// Refuses each change once, as if the running transaction had no room for it.
class RefusingStore final : public meta::ForwardingStore {
 public:
  explicit RefusingStore(std::unique_ptr<meta::Store> below)
      : ForwardingStore(*below), below_(std::move(below)) {}
  std::function<void()> while_waiting;  // called for each change that was refused
  int scans = 0;

  Result<std::vector<meta::Item>> scan(meta::Key first, meta::Key last,
                                       std::size_t max_items) override {
    ++scans;
    return ForwardingStore::scan(first, last, max_items);
  }

  Result<Seq> try_apply(const meta::Batch& batch, meta::Reserve reserve) override {
    refuses_ = while_waiting && !refuses_;
    return refuses_ ? fail(Errc::kMustWait) : ForwardingStore::try_apply(batch, reserve);
  }
  Result<> make_room() override {
    if (!refuses_) return ForwardingStore::make_room();
    while_waiting();
    return ok();
  }

 private:
  const std::unique_ptr<meta::Store> below_;
  bool refuses_ = false;
};

// The system's clock, put forward.
class LeapingClock final : public Clock {
 public:
  Timestamp now() override { return system_clock().now(); }
  std::chrono::nanoseconds monotonic() override { return system_clock().monotonic() + ahead; }
  std::chrono::nanoseconds ahead{0};
};

class WaitingTest : public VolumeTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {}));
    device_->forget_write_pointers();
    auto disk = std::make_unique<device::DiscardingDevice>(*device_, true, [](Errc) {});
    auto store = meta::Store::open(*disk, {.background = false});
    ASSERT_TRUE(store);
    auto refusing = std::make_unique<RefusingStore>(std::move(*store));
    store_ = refusing.get();
    auto volume = std::make_unique<MountedVolume>(std::move(disk), options_, clock_,
                                                  std::move(refusing));
    ASSERT_TRUE(volume->start({}));
    volume_ = std::move(volume);
    from_ = make_directory("from");
    to_ = make_directory("to");
    file_ = create("file", from_);
    write(file_, 0, "contents");
    other_ = create("other", to_);
    write(other_, 0, std::string(8 * kBlockBytes, 'o'));
    ASSERT_TRUE(volume_->sync());
  }
  InodeNo make_directory(std::string_view name) {
    return volume_->make_directory(kRootInode, name, 0755, {})->inode;
  }
  // Whatever has a lock is looked at while `change`, which must succeed, waits.
  template <class Change>
  void expect_free_locks(const Change& change) {
    int waits = 0;
    store_->while_waiting = [&] {
      ++waits;
      in_time([this] {
        ignore_error(volume_->lookup(from_, "file"), "it may be removed");
        ignore_error(volume_->lookup(to_, "other"), "it may be removed");
        for (const InodeNo inode : {kRootInode, from_, to_, file_, other_}) {
          ignore_error(volume_->get_attributes(inode), "it may be removed");
        }
      });
    };
    const auto changed = change();
    EXPECT_TRUE(changed) << describe(changed.error());
    EXPECT_GT(waits, 0);
    store_->while_waiting = nullptr;
  }

  // Closes what was made.
  Result<> closed(Result<Created> made) {
    if (!made) return fail(made.error());
    volume_->release(made->file);
    return ok();
  }

  std::uint64_t blocks_written() {
    return (*Json::parse(volume_->stats_json()))["data"]["user_blocks_written"].number();
  }

  LeapingClock clock_;
  RefusingStore* store_ = nullptr;
  InodeNo from_, to_, file_, other_;
};

TEST_F(WaitingTest, MakingNames) {
  expect_free_locks([&] { return closed(volume_->create(from_, "new", 0644, {})); });
  expect_free_locks([&] { return closed(volume_->create_unnamed(from_, 0644, {})); });
  expect_free_locks([&] { return volume_->make_directory(from_, "directory", 0755, {}); });
  expect_free_locks([&] { return volume_->make_node(from_, "node", S_IFIFO | 0644, 0, {}); });
  expect_free_locks([&] { return volume_->make_symlink(from_, "symlink", "target", {}); });
  expect_free_locks([&] { return volume_->link(file_, to_, "link"); });
}

TEST_F(WaitingTest, RenamingAndRemoving) {
  ASSERT_TRUE(volume_->make_directory(from_, "directory", 0755, {}));
  expect_free_locks([&] { return volume_->rename(from_, "directory", to_, "moved", {}); });
  expect_free_locks([&] {
    return volume_->rename(from_, "file", to_, "other", {.exchange = true});
  });
  expect_free_locks([&] {
    return volume_->rename(from_, "file", to_, "new", {.whiteout = Owner{}});
  });
  expect_free_locks([&] { return volume_->rename(to_, "other", to_, "new", {}); });
  expect_free_locks([&] { return volume_->unlink(to_, "new"); });
  expect_free_locks([&] { return volume_->remove_directory(to_, "moved"); });
}

TEST_F(WaitingTest, ChangingAttributes) {
  expect_free_locks([&] { return volume_->set_attributes(file_, {.mode = 0600}); });
  expect_free_locks([&] {
    return volume_->set_xattr(file_, "user.name", "value", XattrMode::kAny);
  });
  expect_free_locks([&] { return volume_->remove_xattr(file_, "user.name"); });
}

// The new size, the blocks past it, and the orphan record are changes of their own.
TEST_F(WaitingTest, Truncating) {
  expect_free_locks([&] { return volume_->set_attributes(other_, {.size = 100}); });
  expect_free_locks([&] { return volume_->set_attributes(other_, {.size = 200'000}); });
  EXPECT_EQ(read(other_, 0, 200), std::string(100, 'o') + std::string(100, '\0'));
}

TEST_F(WaitingTest, PunchingAndSharing) {
  expect_free_locks([&] {
    return volume_->copy_range(other_, 0, file_, 0, 8 * kBlockBytes, false);
  });
  expect_free_locks([&] { return volume_->punch(other_, 0, 4 * kBlockBytes, {}); });
  EXPECT_EQ(read(file_), std::string(8 * kBlockBytes, 'o'));
  EXPECT_EQ(read(other_, 0, 1), std::string(1, '\0'));
}

// Whether a block is data is found out without the data that follows it.
TEST_F(WaitingTest, FindingDataReadsNoMoreThanItNeeds) {
  constexpr std::uint64_t kBlocks = 10'000;
  for (std::uint64_t i = 0; i < kBlocks; i += 100) {
    write(file_, i * kBlockBytes, std::string(100 * kBlockBytes, 'd'));
  }
  ASSERT_TRUE(volume_->sync());
  store_->scans = 0;
  EXPECT_EQ(volume_->find_data(file_, 10), 10u);
  EXPECT_LE(store_->scans, 3);
  EXPECT_EQ(volume_->find_hole(file_, 10), kBlocks * kBlockBytes);
  store_->scans = 0;
  ASSERT_TRUE(volume_->punch(file_, 10, 20, {}));
  EXPECT_LE(store_->scans, 10);
  ASSERT_TRUE(volume_->punch(file_, 9'000 * kBlockBytes, kBlockBytes, {}));
  EXPECT_EQ(volume_->find_hole(file_, 10), 9'000 * kBlockBytes);
}

TEST_F(WaitingTest, WritingBack) {
  write(file_, 100, "small");
  expect_free_locks([&] { return volume_->fsync(file_, nullptr, false); });
  write(other_, 0, std::string(100 * kBlockBytes, 'n'));
  expect_free_locks([&] { return volume_->sync(); });
  EXPECT_EQ(read(other_, 99 * kBlockBytes), std::string(kBlockBytes, 'n'));
}

// The truncation holds the file's token until its last change.
TEST_F(WaitingTest, AFileThatIsTruncatedKeepsNoOtherFromBeingWrittenBack) {
  MountOptions options = options_;
  options.commit_interval = std::chrono::milliseconds(0);
  ASSERT_TRUE(volume_->change_options(options));
  write(other_, 0, "dirty");
  write(file_, 0, std::string(8 * kBlockBytes, 'n'));
  const std::uint64_t before = blocks_written();
  bool waits = false;
  store_->while_waiting = [&] {
    if (std::exchange(waits, true)) return;
    in_time([this] { volume_->tick(); });
    EXPECT_EQ(blocks_written(), before + 8);
  };
  ASSERT_TRUE(volume_->set_attributes(other_, {.size = 100}));
  EXPECT_TRUE(waits);
  store_->while_waiting = nullptr;
  ASSERT_TRUE(volume_->sync());
  EXPECT_EQ(read(other_), "dirty" + std::string(95, 'o'));
}

// A pass that finds it busy puts it back before a younger file.
TEST_F(WaitingTest, AFileThatIsTruncatedIsWrittenBackWhenItIsOldAlthoughAYoungerOneIsDirty) {
  MountOptions options = options_;
  options.commit_interval = std::chrono::hours(10);
  ASSERT_TRUE(volume_->change_options(options));
  write(other_, 0, std::string(2 * kBlockBytes, 'n'));
  clock_.ahead += std::chrono::hours(5);
  write(file_, 0, std::string(8 * kBlockBytes, 'n'));
  clock_.ahead += std::chrono::hours(6);
  const std::uint64_t before = blocks_written();
  store_->while_waiting = [&] {
    in_time([this] { volume_->tick(); });
    EXPECT_EQ(blocks_written(), before);
  };
  ASSERT_TRUE(volume_->set_attributes(other_, {.size = 4 * kBlockBytes}));
  store_->while_waiting = nullptr;
  clock_.ahead += std::chrono::hours(1);
  volume_->tick();
  EXPECT_EQ(blocks_written(), before + 2);
}

// ---- A device that hangs ------------------------------------------------------------------------

// Its flushes wait from hold() to release().
class HangingDevice final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::append;
  using ForwardingDevice::ForwardingDevice;
  Result<> flush() override {
    {
      MutexLock lock(mu_);
      if (holds_) {
        hangs_ = true;
        moved_.notify_all();
      }
      while (holds_) moved_.wait(mu_);
    }
    return ForwardingDevice::flush();
  }
  void hold() {
    MutexLock lock(mu_);
    holds_ = true;
  }
  void await_flush() {
    MutexLock lock(mu_);
    while (!hangs_) moved_.wait(mu_);
  }
  void release() {
    MutexLock lock(mu_);
    holds_ = false;
    moved_.notify_all();
  }

 private:
  Mutex mu_;
  CondVar moved_;
  bool holds_ GUARDED_BY(mu_) = false, hangs_ GUARDED_BY(mu_) = false;
};

class HangingTest : public VolumeTest {
 protected:
  void mount() override {
    auto volume = Volume::mount(hanging_, options_);
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }

  HangingDevice hanging_{*device_};
};

// Without threads of the volume, the thread that fills the transaction commits it: once the flush
// hangs, that thread is inside a create().
TEST_F(HangingTest, ALookupDoesNotWaitForACreationThatWaitsForTheDevice) {
  create("existing");
  hanging_.hold();
  std::atomic<bool> ends{false};
  std::thread creator([&] {
    for (int i = 0; !ends; ++i) create("new" + std::to_string(i));
  });
  hanging_.await_flush();
  in_time([this] { lookup("existing"); });
  ends = true;
  hanging_.release();
  creator.join();
}

}  // namespace
}  // namespace lazyfs::fs
