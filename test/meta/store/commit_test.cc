// Commits beside everything else: only callers of commit() wait for the disk, and callers that come
// at the same time wait together.
#include <atomic>
#include <thread>

#include "device/forwarding.h"
#include "device/recording.h"
#include "test/meta/fixture.h"

namespace lazyfs::meta {
namespace {

// A device in memory whose flushes and appends can be made to wait. Reads never do.
class GateDevice final : public device::ForwardingDevice {
 public:
  GateDevice(std::uint32_t bands, std::uint32_t blocks)
      : GateDevice(device::MemoryDevice::uniform(bands, blocks)) {}
  using ForwardingDevice::append;

  // From now on `calls` more flushes and appends are let through; the others wait.
  void shut(std::uint64_t calls = 0) {
    MutexLock lock(mu_);
    passes_ = arrivals_ + calls;
    moved_.notify_all();
  }
  void open() {
    MutexLock lock(mu_);
    passes_ = ~0ull;
    moved_.notify_all();
  }
  void wait_until_a_call_waits() {
    MutexLock lock(mu_);
    while (arrivals_ <= passes_) moved_.wait(mu_);
  }
  // Lets the call that waits through, and no other.
  void let_one_through() {
    MutexLock lock(mu_);
    ++passes_;
    moved_.notify_all();
  }
  std::uint64_t flushes() const { return flushes_; }

  Result<> append(BandAddress to, std::span<const device::Piece> pieces) override {
    pass();
    return ForwardingDevice::append(to, pieces);
  }
  Result<> flush() override {
    ++flushes_;
    pass();
    return ForwardingDevice::flush();
  }

 private:
  explicit GateDevice(std::unique_ptr<device::MemoryDevice> below)
      : ForwardingDevice(*below), below_(std::move(below)) {}

  void pass() {
    MutexLock lock(mu_);
    const std::uint64_t turn = ++arrivals_;
    moved_.notify_all();
    while (turn > passes_) moved_.wait(mu_);
  }

  std::unique_ptr<device::MemoryDevice> below_;
  std::atomic<std::uint64_t> flushes_{0};
  Mutex mu_;
  CondVar moved_;
  std::uint64_t arrivals_ GUARDED_BY(mu_) = 0, passes_ GUARDED_BY(mu_) = ~0ull;
};

class CommitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Store::format(device, small_superblock(8)));
    open();
  }
  void open() {
    auto opened = Store::open(device, options);
    ASSERT_TRUE(opened);
    store = std::move(*opened);
  }
  void TearDown() override { device.open(); }
  bool put(std::uint64_t key, std::size_t bytes = 100) {
    Batch batch;
    batch.put({1, 1, key}, as_value(std::string(bytes, 'p')));
    return store->apply(batch).has_value();
  }

  GateDevice device{12, 512};
  StoreOptions options;
  std::unique_ptr<Store> store;
};

// The commit stands still at its append and its flush; everything else continues. If anything
// waited for it, this test would never end.
TEST_F(CommitTest, NobodyWhoDidNotAskForDurabilityWaitsForACommit) {
  for (std::uint64_t key = 0; key < 500; ++key) ASSERT_TRUE(put(key));
  device.shut();
  std::thread committer([&] { EXPECT_TRUE(store->commit()); });
  for (std::uint64_t stop = 1; stop <= 2; ++stop) {
    device.wait_until_a_call_waits();
    EXPECT_EQ(store->durable_seq(), Seq{1});
    for (std::uint64_t key = 0; key < 500; ++key) {
      ASSERT_TRUE(put(key));  // in a node that is being written
      ASSERT_TRUE(put(500 * stop + key));
      ASSERT_TRUE(store->get({1, 1, key}));
    }
    EXPECT_EQ(contents_of(*store).size(), 500 * (stop + 1));
    (void)store->stats();
    device.let_one_through();
  }
  committer.join();
  EXPECT_EQ(store->durable_seq(), Seq{2});
  device.open();
  EXPECT_TRUE(store->commit());
  EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
}

TEST_F(CommitTest, ThoseWhoWaitForACommitInProgressShareTheNextOne) {
  ASSERT_TRUE(put(1));
  device.shut();
  std::thread first([&] { EXPECT_TRUE(store->commit()); });
  device.wait_until_a_call_waits();
  ASSERT_TRUE(put(2));
  const std::uint64_t before = device.flushes();
  std::vector<std::thread> others;
  for (int i = 0; i < 10; ++i) {
    others.emplace_back([&] { EXPECT_TRUE(store->commit()); });
  }
  while (store->stats().commits_waiting < 11) std::this_thread::yield();
  EXPECT_EQ(store->durable_seq(), Seq{1});
  device.open();
  first.join();
  for (auto& thread : others) thread.join();
  EXPECT_EQ(store->durable_seq(), Seq{3});
  EXPECT_EQ(store->stats().transactions, 2u);
  EXPECT_EQ(device.flushes(), before + 2);  // the first one's, and the next one's
}

// A writer that is faster than the disk fills one transaction while another is written, and then
// waits for the latter to end, not for its own to be durable.
TEST_F(CommitTest, AWriterWhoFillsATransactionWaitsOnlyUntilTheNextOneBegins) {
  store.reset();
  options.cache_bytes = 16 * kBlockBytes;  // 64 changed nodes are the most then; 4 items each
  open();
  device.shut();
  std::atomic<std::uint64_t> written{0};
  std::thread writer([&] {
    for (std::uint64_t key = 0; key < 500; ++key, ++written) {
      EXPECT_TRUE(put(key, 900));
    }
  });
  device.wait_until_a_call_waits();  // the store's own thread, with half a transaction
  while (written < 4 * 64) std::this_thread::yield();
  device.let_one_through();
  device.wait_until_a_call_waits();
  device.let_one_through();
  while (store->durable_seq() < Seq{2}) std::this_thread::yield();
  device.wait_until_a_call_waits();
  writer.join();  // while the next commit stands at the gate
  EXPECT_EQ(store->durable_seq(), Seq{2});
  device.open();
  EXPECT_TRUE(store->commit());
  EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
}

TEST(AbandonTest, NothingIsWrittenAfterAStoreWasAbandoned) {
  const auto memory = device::MemoryDevice::uniform(10, 64);
  ASSERT_TRUE(Store::format(*memory, small_superblock(6)));
  device::RecordingDevice device(*memory);
  StoreOptions options;
  options.transaction_bytes = 8 * kBlockBytes;
  auto store = *Store::open(device, options);
  std::atomic<std::uint64_t> changes{0};
  std::thread writer([&] {
    for (std::uint64_t key = 0;; ++key, ++changes) {
      Batch batch;
      const char letter = static_cast<char>('a' + key % 23);  // so that every put changes its item
      batch.put({1, 1, key % 200}, as_value(std::string(1000, letter)));
      if (!store->apply(batch)) return;
    }
  });
  while (changes < 1000) std::this_thread::yield();
  store->abandon();
  const std::size_t written = device.op_count();
  writer.join();
  EXPECT_EQ(store->commit().error(), Errc::kShutDown);
  EXPECT_EQ(store->give_back_bands(), ok());
  EXPECT_TRUE(store->get({1, 1, 1}));
  store.reset();
  EXPECT_EQ(device.op_count(), written);
}

}  // namespace
}  // namespace lazyfs::meta
