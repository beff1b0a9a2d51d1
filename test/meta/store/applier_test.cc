// How a change is planned beside readers, and again when its plan is out of date.
#include "meta/store/applier.h"

#include <array>
#include <random>
#include <thread>

#include "base/endian.h"
#include "test/meta/fixture.h"

namespace lazyfs::meta {
namespace {

class ApplierTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kLimitNodes = 100;
  static constexpr std::uint64_t kKeys = 400;

  void SetUp() override {
    log.reset_retired();
    WriterLock lock(tree.mu);
    tree.cache.create(0);
    tree.limits = limits_of(log.band_sizes(), 1000);
    tree.low_watermark = tree.high_watermark = 1000;
  }
  static RecoveredLog new_log() {
    RecoveredLog found;
    found.spare = small_superblock(8).log_bands;
    return found;
  }
  void put(std::uint64_t key, std::size_t bytes = 100) {
    Batch batch;
    batch.put({1, 1, key}, as_value(std::string(bytes, 'a')));
    ASSERT_TRUE(applier.try_apply(batch, Reserve::kNone));
  }
  // Some tens of leaves.
  void fill() {
    for (std::uint64_t key = 0; key < kKeys; ++key) put(2 * key);
  }
  // Plans to put a value of 50 bytes at a key in the middle.
  TreePlan plan() {
    batch_.put({1, 1, kKeys}, as_value(std::string(50, 'b')));
    auto made = coalesce(batch_);
    EXPECT_TRUE(made);
    changes_ = std::move(*made);
    ReaderLock lock(tree.mu);
    auto plan = tree.tree.plan(changes_);
    EXPECT_TRUE(plan);
    return std::move(*plan);
  }
  bool is_current(const TreePlan& plan) {
    ReaderLock lock(tree.mu);
    return tree.tree.is_current(plan);
  }

  std::unique_ptr<device::MemoryDevice> device = device::MemoryDevice::uniform(16, 256);
  Log log{*device, {Uuid{}, 1}, new_log()};
  SharedTree tree{kLimitNodes, 7, Seq{1}, Tree::kRoot, 0};
  NodeLoader loader{*device, log, tree};
  StoreFailure failure;
  Applier applier{log,  tree, loader, failure, [](Applier::Obstacle, Seq) { return ok(); },
                  [] {}};

 private:
  Batch batch_;
  std::vector<Change> changes_;
};

TEST_F(ApplierTest, APlanHoldsUntilItsLeafChanges) {
  fill();
  const TreePlan made = plan();
  EXPECT_TRUE(is_current(made));
  put(0, 99);  // in the first leaf, no larger than before
  EXPECT_TRUE(is_current(made));
  put(kKeys + 2, 99);  // in the leaf of the plan
  EXPECT_FALSE(is_current(made));
}

TEST_F(ApplierTest, APlanHoldsNoLongerWhenANodeWasSplit) {
  fill();
  const TreePlan made = plan();
  for (std::uint64_t key = 1; key < 80; key += 2) put(key);  // in the first leaves
  EXPECT_FALSE(is_current(made));
}

TEST_F(ApplierTest, APlanHoldsNoLongerWhenANodeWasEvicted) {
  fill();
  const TreePlan made = plan();
  WriterLock lock(tree.mu);
  tree.cache.seal();
  tree.cache.mark_durable(0, tree.cache.sealed().dirty.size());
  EXPECT_EQ(tree.cache.end_sealed().seq, made.running);
  tree.cache.running().seq = made.running;  // so that only the eviction is left to notice
  EXPECT_TRUE(tree.tree.is_current(made));
  tree.cache.set_limit(1);
  std::byte* const image = tree.cache.take_image();
  NodePage(image).format(NodeNo{1000}, 0, tree.fs_tag);
  const NodePin pin(tree.cache.insert_clean(NodeNo{1000}, image));
  EXPECT_FALSE(tree.tree.is_current(made));
}

// Its estimate does not count what the transaction before had changed.
TEST_F(ApplierTest, APlanHoldsNoLongerWhenACommitHasBegun) {
  fill();
  const TreePlan made = plan();
  WriterLock lock(tree.mu);
  tree.cache.seal();
  EXPECT_FALSE(tree.tree.is_current(made));
}

// Items of all sizes come and go next to each other, so that leaves are split, emptied and merged.
TEST_F(ApplierTest, AChangeNeedsNoMoreThanItsEstimate) {
  std::mt19937_64 random(test_seed());
  {
    WriterLock lock(tree.mu);
    tree.cache.set_limit(10'000);
  }
  for (int round = 0; round < 20'000; ++round) {
    Batch batch;
    const bool grows = round / 500 % 2 == 0;
    std::uint64_t at = random() % 1000;
    for (unsigned n = 1 + random() % 20; n > 0; --n, at += 1 + random() % 8) {
      const Key key{1, 1, at};
      if (random() % 8 < (grows ? 2 : 6)) {
        batch.erase(key);
      } else {
        batch.put(key, as_value(std::string(random() % 8 == 0 ? 1000 : random() % 200, 'c')));
      }
    }
    auto changes = coalesce(batch);
    ASSERT_TRUE(changes);
    WriterLock lock(tree.mu);
    const Changes& running = tree.cache.running();
    const std::size_t dirty = running.dirty.size(), freed = running.freed.size();
    const std::uint64_t nodes = tree.cache.nodes();
    auto plan = tree.tree.plan(*changes);
    ASSERT_TRUE(plan);
    const Estimate most = plan->estimate;
    ASSERT_TRUE(tree.tree.apply(*changes, *plan));
    ASSERT_LE(running.dirty.size(), dirty + most.dirty) << round;
    ASSERT_LE(running.freed.size(), freed + most.freed) << round;
    ASSERT_LE(tree.cache.nodes(), nodes + most.made) << round;
    if (round % 8 != 0) continue;
    tree.cache.seal();
    tree.cache.mark_durable(0, tree.cache.sealed().dirty.size());
    tree.cache.end_sealed();
  }
}

TEST_F(ApplierTest, AChangeIsPlannedWhileOthersRead) {
  fill();
  Node* leaf = nullptr;
  std::thread writer;
  {
    ReaderLock reading(tree.mu);
    const TreePlan made = [&] {
      Batch batch;
      batch.put({1, 1, 0}, as_value("b"));
      auto changes = coalesce(batch);
      return *tree.tree.plan(*changes);
    }();
    leaf = &made.groups[0].path.at(made.groups[0].path.leaf());
    leaf->referenced = false;
    writer = std::thread([this] { put(0, 50); });
    // For ever, if a plan needed the lock exclusively.
    while (!leaf->referenced) std::this_thread::yield();
  }
  writer.join();
  EXPECT_EQ(applier.plans_repeated(), 0u);
}

// Each of the threads changes leaves of the others: no change is lost, whatever is planned again.
TEST_F(ApplierTest, ChangesThatWerePlannedTogetherAreAllMade) {
  constexpr std::uint64_t kThreads = 4, kChanges = 500;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      const std::array<std::int64_t, 1> one{1};
      for (std::uint64_t i = 0; i < kChanges; ++i) {
        Batch batch;
        batch.add({2, 2, i % 40}, one);
        batch.put({1, 1, (t * kChanges) + i}, as_value(std::string(100, 'x')));
        ASSERT_TRUE(applier.try_apply(batch, Reserve::kNone));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ReaderLock lock(tree.mu);
  std::int64_t sum = 0;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const auto value = tree.tree.get({2, 2, i});
    ASSERT_TRUE(value && *value);
    sum += static_cast<std::int64_t>(load_le_at<std::uint64_t>(bytes_of(**value), 0));
  }
  EXPECT_EQ(sum, static_cast<std::int64_t>(kThreads * kChanges));
  for (std::uint64_t key = 0; key < kThreads * kChanges; ++key) {
    const auto value = tree.tree.get({1, 1, key});
    ASSERT_TRUE(value && *value) << key;
  }
}

}  // namespace
}  // namespace lazyfs::meta
