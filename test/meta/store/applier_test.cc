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
  static constexpr std::uint64_t kKeys = 400, kManyKeys = 6000;

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
  // An estimate that can be compared.
  struct Need {
    std::uint64_t dirty = 0, made = 0, freed = 0;
    friend bool operator==(const Need&, const Need&) = default;
    friend void PrintTo(const Need& need, std::ostream* to) {
      *to << need.dirty << " dirty, " << need.made << " made, " << need.freed << " freed";
    }
  };
  Need need_of(const Batch& batch) {
    auto changes = coalesce(batch);
    EXPECT_TRUE(changes);
    ReaderLock lock(tree.mu);
    const auto plan = tree.tree.plan(*changes);
    EXPECT_TRUE(plan);
    return {plan->estimate.dirty, plan->estimate.made, plan->estimate.freed};
  }
  // Makes the change, and compares it with its estimate.
  void change(const Batch& batch) {
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
    EXPECT_LE(running.dirty.size(), dirty + most.dirty);
    EXPECT_LE(running.freed.size(), freed + most.freed);
    EXPECT_LE(tree.cache.nodes(), nodes + most.made);
  }
  void end_transaction() {
    WriterLock lock(tree.mu);
    tree.cache.seal();
    tree.cache.mark_durable(0, tree.cache.sealed().dirty.size());
    tree.cache.end_sealed();
  }
  // `count` items, from `first` on, each `step` after the one before it.
  static Batch puts(std::uint64_t first, std::uint64_t count, std::uint64_t step,
                    std::size_t bytes) {
    Batch batch;
    const std::string value(bytes, 'd');
    for (std::uint64_t i = 0; i < count; ++i) batch.put({1, 1, first + i * step}, as_value(value));
    return batch;
  }
  // Of `count` of the items that fill() has put, from the key `first` on.
  static Batch erasures(std::uint64_t first, std::uint64_t count) {
    Batch batch;
    for (std::uint64_t i = 0; i < count; ++i) batch.erase({1, 1, first + 2 * i});
    return batch;
  }
  std::uint64_t nodes() {
    ReaderLock lock(tree.mu);
    return tree.cache.nodes();
  }
  // Puts items of even keys, three in a leaf, until the root has no room for so many leaves more.
  // Returns the next key.
  std::uint64_t fill_root(std::size_t leaves = 1) {
    {
      WriterLock lock(tree.mu);
      tree.cache.set_limit(10'000);
    }
    const auto room = [this] {
      ReaderLock lock(tree.mu);
      const ConstNodePage root = tree.cache.find(Tree::kRoot)->page();
      return root.is_leaf() ? kBlockBytes : root.free_bytes();
    };
    std::uint64_t key = 0;
    while (room() >= leaves * kInnerItemRoom) {
      change(puts(key, 1, 1, 1000));
      key += 2;
    }
    for (; key % 6 != 0; key += 2) change(puts(key, 1, 1, 1000));
    end_transaction();
    return key;
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

// Another thread may erase the item between two plans.
TEST_F(ApplierTest, AnAdditionThatIsPlannedAgainForgetsWhatItHasFound) {
  const Key counter{2, 2, 1};
  const std::array<std::int64_t, 1> one{1};
  Batch addition, erasure;
  addition.add(counter, one);
  erasure.erase(counter);
  change(addition);
  auto changes = coalesce(addition);
  ASSERT_TRUE(changes);
  {
    ReaderLock lock(tree.mu);
    ASSERT_TRUE(tree.tree.plan(*changes));
  }
  change(erasure);
  WriterLock lock(tree.mu);
  auto plan = tree.tree.plan(*changes);
  ASSERT_TRUE(plan);
  ASSERT_TRUE(tree.tree.apply(*changes, *plan));
  const auto value = tree.tree.get(counter);
  ASSERT_TRUE(value && *value);
  EXPECT_EQ(load_le_at<std::uint64_t>(bytes_of(**value), 0), 1u);
}

TEST_F(ApplierTest, AChangeThatFitsNeedsItsLeaves) {
  fill();
  end_transaction();
  EXPECT_EQ(need_of(puts(0, 1, 1, 100)), (Need{.dirty = 1}));
  EXPECT_EQ(need_of(puts(0, 30, 2, 100)), (Need{.dirty = 1}));
  Batch far = puts(0, 1, 1, 100);
  far.put({1, 1, kKeys}, as_value("b"));
  EXPECT_EQ(need_of(far), (Need{.dirty = 2}));
  change(puts(0, 1, 1, 100));
  EXPECT_EQ(need_of(puts(0, 1, 1, 100)), Need{});  // the transaction has the leaf already
  EXPECT_EQ(need_of(far), (Need{.dirty = 1}));
}

// An inner node whose first key is above the item: that key is lowered (T3).
TEST_F(ApplierTest, AnItemBelowAllOthersNeedsTheNodesOnTheWay) {
  const std::uint64_t first_end = fill_root();  // the root becomes the first inner node below it
  for (std::uint64_t i = 0; i < 900; ++i) change(puts(first_end + 2 * i, 1, 1, 1000));
  change(erasures(0, first_end / 2));
  end_transaction();
  EXPECT_EQ(need_of(puts(first_end, 1, 1, 1000)), (Need{.dirty = 1}));
  EXPECT_EQ(need_of(puts(0, 1, 1, 100)), (Need{.dirty = 2}));
}

TEST_F(ApplierTest, AChangeThatSplitsNeedsTheNewNodesAndTheParent) {
  fill();
  end_transaction();
  EXPECT_EQ(need_of(puts(1, 1, 2, 100)), (Need{.dirty = 3, .made = 1}));
  EXPECT_EQ(need_of(puts(1, 3, 2, 100)), (Need{.dirty = 4, .made = 2}));
  EXPECT_EQ(need_of(puts(1, 30, 2, 100)), (Need{.dirty = 6, .made = 4}));
  change(puts(0, 1, 1, 100));
  EXPECT_EQ(need_of(puts(1, 1, 2, 100)), (Need{.dirty = 2, .made = 1}));
}

TEST_F(ApplierTest, ASplitOfAFullRootNeedsTwoNodesMore) {
  fill_root();
  EXPECT_EQ(need_of(puts(1, 1, 2, 1000)), (Need{.dirty = 5, .made = 3}));
}

// The root may be split for each of the new leaves.
TEST_F(ApplierTest, ARootWithRoomForOneLeafIsFullForTwo) {
  fill_root(2);
  EXPECT_EQ(need_of(puts(1, 1, 2, 1000)), (Need{.dirty = 3, .made = 1}));
  EXPECT_EQ(need_of(puts(1, 2, 2, 1000)), (Need{.dirty = 7, .made = 5}));
}

// A node is joined with a sibling when a quarter of it is left, or less.
TEST_F(ApplierTest, AnErasureNeedsSiblingsOnlyWhereLittleIsLeft) {
  fill();
  end_transaction();
  EXPECT_EQ(need_of(erasures(0, 24)), (Need{.dirty = 1}));
  EXPECT_EQ(need_of(erasures(0, 25)), (Need{.dirty = 3, .freed = 2}));
  EXPECT_EQ(need_of(puts(0, 33, 2, 1)), (Need{.dirty = 1}));  // smaller ones, none erased
  Batch smaller = puts(0, 32, 2, 1);
  smaller.erase({1, 1, 64});
  EXPECT_EQ(need_of(smaller), (Need{.dirty = 3, .freed = 2}));
  Batch both = puts(1, 1, 2, 1000);  // may split, and what is left of the halves be joined
  both.erase({1, 1, 0});
  EXPECT_EQ(need_of(both), (Need{.dirty = 4, .made = 1, .freed = 2}));
}

// Several leaves at a time are made, emptied and joined, and so are inner nodes.
TEST_F(ApplierTest, AChangeOfATreeOfThreeLevelsNeedsNoMoreThanItsEstimate) {
  std::mt19937_64 random(test_seed());
  fill_root();
  std::uint64_t freed_at_most_once = 0;
  for (int round = 0; round < 600; ++round) {
    const bool grows = round / 60 % 2 == 0;
    Batch batch;
    std::uint64_t at = random() % kManyKeys;
    for (std::uint64_t n = 1 + random() % 300; n > 0; --n, at += 1 + random() % 2) {
      if (random() % 16 < (grows ? 1 : 15)) {
        batch.erase({1, 1, at});
      } else {
        batch.put({1, 1, at}, as_value(std::string(700 + random() % 300, 'c')));
      }
    }
    const std::uint64_t before = nodes();
    change(batch);
    freed_at_most_once = std::max(freed_at_most_once, before - std::min(before, nodes()));
    if (round % 4 == 0) end_transaction();
    if (HasFailure()) return;
  }
  EXPECT_GT(freed_at_most_once, 60u);
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
    change(batch);
    ASSERT_FALSE(HasFailure()) << round;
    if (round % 8 == 0) end_transaction();
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
