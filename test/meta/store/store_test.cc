#include "meta/store/store.h"

#include "base/endian.h"
#include "meta/tree/node_page.h"
#include "test/meta/fixture.h"

namespace lazyfs::meta {
namespace {

class StoreTest : public ::testing::Test {
 protected:
  void make(std::uint32_t log_bands = 6, std::uint32_t band_blocks = 64) {
    device = memory_device(log_bands + 10, band_blocks);
    ASSERT_TRUE(Store::format(*device, small_superblock(log_bands)));
    open();
  }
  void open() {
    device->forget_write_pointers();
    auto opened = Store::open(*device, options);
    ASSERT_TRUE(opened.has_value()) << describe(opened.error());
    store = std::move(*opened);
  }
  void reopen() {
    ASSERT_TRUE(store->close());
    store.reset();
    open();
  }
  Result<Seq> put(Key key, std::string_view value, Reserve reserve = Reserve::kNone) {
    Batch batch;
    batch.put(key, as_value(value));
    return store->apply(batch, reserve);
  }
  Result<Seq> erase(Key key) {
    Batch batch;
    batch.erase(key);
    return store->apply(batch);
  }
  std::optional<std::string> get(Key key) {
    const auto value = store->get(key);
    EXPECT_TRUE(value.has_value()) << describe(value.error());
    if (!value || !*value) return std::nullopt;
    return as_text(**value);
  }

  std::unique_ptr<device::MemoryDevice> device;
  StoreOptions options = quiet_options();
  std::unique_ptr<Store> store;
};

TEST_F(StoreTest, IsEmptyAfterFormat) {
  make();
  EXPECT_EQ(get({1, 1, 1}), std::nullopt);
  EXPECT_TRUE(contents_of(*store).empty());
  EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
}

TEST_F(StoreTest, FindsWhatWasPutAlsoAfterReopening) {
  make();
  ASSERT_TRUE(put({1, 2, 3}, "abc"));
  ASSERT_TRUE(put({1, 2, 4}, ""));
  EXPECT_EQ(get({1, 2, 3}), "abc");
  reopen();
  EXPECT_EQ(get({1, 2, 3}), "abc");
  EXPECT_EQ(get({1, 2, 4}), "");
  EXPECT_EQ(get({1, 2, 5}), std::nullopt);
}

TEST_F(StoreTest, KeepsRandomItemsThroughCommitsReopeningsAndATinyCache) {
  options.cache_bytes = 20 * kBlockBytes;
  make(8, 64);
  std::mt19937_64 random(test_seed());
  Model model;
  for (int round = 0; round < 20000; ++round) {
    Batch batch;
    for (unsigned n = 1 + random() % 5; n > 0; --n) {
      const Key key{random() % 4, static_cast<std::uint8_t>(random() % 2), random() % 300};
      if (random() % 3 == 0) {
        batch.erase(key);
        model.erase(key);
      } else {
        std::string value(random() % 100, static_cast<char>('a' + random() % 26));
        if (random() % 50 == 0) value.resize(kMaxValueBytes, 'x');
        batch.put(key, as_value(value));
        model[key] = value;
      }
    }
    const auto applied = store->apply(batch);
    ASSERT_TRUE(applied.has_value()) << round << describe(applied.error());
    if (random() % 20 == 0) {
      ASSERT_TRUE(store->commit());
    }
    if (random() % 1000 == 0) {
      reopen();
      ASSERT_EQ(contents_of(*store), model);
      ASSERT_EQ(problems_of(*store), std::vector<std::string>{});
    }
  }
  ASSERT_EQ(contents_of(*store, 7), model);
}

// The erased item is the only one of its leaf. When the leaf goes, its range falls to a neighbour,
// which is not in memory.
TEST_F(StoreTest, ABatchMayEmptyALeafAndPutAnItemThere) {
  options.cache_bytes = 16 * kBlockBytes;
  const std::string value(500, 'a');
  for (std::uint64_t items = 40; items < 60; ++items) {  // with some, the last leaf has one
    make();
    for (std::uint64_t i = 0; i < items; ++i) ASSERT_TRUE(put({1, 1, 10 * i}, value));
    reopen();
    Batch batch;
    batch.erase({1, 1, 10 * items - 10});
    batch.put({1, 1, 10 * items}, as_value("b"));
    batch.erase({1, 1, 10 * items + 1});
    const auto applied = store->apply(batch);
    ASSERT_TRUE(applied) << items << ": " << describe(applied.error());
    EXPECT_EQ(get({1, 1, 10 * items - 10}), std::nullopt);
    EXPECT_EQ(get({1, 1, 10 * items}), "b");
    ASSERT_EQ(problems_of(*store), std::vector<std::string>{});
    ASSERT_TRUE(store->close());
    store.reset();
  }
}

TEST_F(StoreTest, ABatchThatSplitsALeafMayEmptyTheOtherHalf) {
  for (std::uint64_t large = 1; large < 6; ++large) {
    make();
    for (std::uint64_t i = 0; i < 30; ++i) ASSERT_TRUE(put({1, 1, i}, std::string(100, 'a')));
    Batch batch;
    batch.erase({1, 1, 0});
    for (std::uint64_t i = 1; i <= large; ++i) {
      batch.put({1, 1, i}, as_value(std::string(1000, 'b')));
    }
    for (std::uint64_t i = large + 1; i < 30; ++i) batch.erase({1, 1, i});
    ASSERT_TRUE(store->apply(batch));
    EXPECT_EQ(contents_of(*store).size(), large);
    EXPECT_EQ(problems_of(*store), std::vector<std::string>{}) << large;
    store.reset();
  }
}

// Erased and put items next to each other, in leaves whose neighbours are not in memory.
TEST_F(StoreTest, RandomBatchesFindWhatTheyNeedAfterReopening) {
  options.cache_bytes = 16 * kBlockBytes;
  make(8, 64);
  std::mt19937_64 random(test_seed());
  Model model;
  for (int round = 0; round < 400; ++round) {
    for (int batches = 0; batches < 20; ++batches) {
      Batch batch;
      const bool grows = random() % 8 < (model.size() < 400 ? 6 : 2);
      const std::uint64_t near = random() % 600;
      for (unsigned n = 1 + random() % 8; n > 0; --n) {
        const Key key{1, 1, near + random() % 12};
        if (random() % 8 < (grows ? 2 : 6)) {
          batch.erase(key);
          model.erase(key);
        } else {
          const std::string value(random() % 1000, static_cast<char>('a' + random() % 26));
          batch.put(key, as_value(value));
          model[key] = value;
        }
      }
      const auto applied = store->apply(batch);
      ASSERT_TRUE(applied) << round << ": " << describe(applied.error());
    }
    reopen();
    if (round % 20 != 0) continue;
    ASSERT_EQ(contents_of(*store), model);
    ASSERT_EQ(problems_of(*store), std::vector<std::string>{});
    reopen();  // with nothing in memory
  }
  ASSERT_EQ(contents_of(*store), model);
}

TEST_F(StoreTest, FindsTheLastItemOfARangeAndScansRangesAsAMapDoes) {
  make(8, 64);
  options.cache_bytes = 20 * kBlockBytes;
  std::mt19937_64 random(test_seed());
  Model model;
  for (int i = 0; i < 3000; ++i) {
    const Key key{random() % 5, static_cast<std::uint8_t>(random() % 3), random() % 1000};
    if (random() % 4 == 0) {
      ASSERT_TRUE(erase(key));
      model.erase(key);
    } else {
      const std::string value(random() % 60, 'v');
      ASSERT_TRUE(put(key, value));
      model[key] = value;
    }
  }
  reopen();
  for (int i = 0; i < 20000; ++i) {
    const Key a{random() % 6, static_cast<std::uint8_t>(random() % 3), random() % 1001};
    const Key b{random() % 6, static_cast<std::uint8_t>(random() % 3), random() % 1001};
    const auto last = store->last_in(a, b);
    ASSERT_TRUE(last);
    auto after = model.upper_bound(b);
    const bool expected = a <= b && after != model.begin() && std::prev(after)->first >= a;
    ASSERT_EQ(last->has_value(), expected);
    if (expected) {
      ASSERT_EQ((*last)->key, std::prev(after)->first);
      ASSERT_EQ(as_text((*last)->value), std::prev(after)->second);
    }
    const std::size_t most = random() % 30;
    const auto items = store->scan(a, b, most);
    ASSERT_TRUE(items);
    auto next = model.lower_bound(a);
    for (const Item& item : *items) {
      ASSERT_TRUE(next != model.end());
      ASSERT_EQ(item.key, next->first);
      ++next;
    }
    if (items->size() < most) {
      ASSERT_TRUE(a > b || next == model.end() || next->first > b);
    }
  }
}

// Wherever a leaf begins.
TEST_F(StoreTest, AScanReturnsItsLastKeyToo) {
  make();
  for (std::uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(put({1, 1, i}, std::string(100, 'a')));
  ASSERT_GT(store->stats().tree_height, 1u);
  for (std::uint64_t i = 1; i < 200; ++i) {
    const auto items = store->scan({1, 1, i - 1}, {1, 1, i}, 10);
    ASSERT_TRUE(items);
    EXPECT_EQ(items->size(), 2u) << i;
  }
}

TEST_F(StoreTest, ExtremeKeysAreKeysLikeOthers) {
  make();
  ASSERT_TRUE(put(kLowest, "lowest"));
  ASSERT_TRUE(put(kHighest, "highest"));
  for (std::uint64_t i = 0; i < 500; ++i) ASSERT_TRUE(put({5, 5, i}, std::string(200, 'm')));
  EXPECT_EQ(get(kLowest), "lowest");
  EXPECT_EQ(get(kHighest), "highest");
  EXPECT_EQ((*store->last_in(kLowest, kHighest))->key, kHighest);
  EXPECT_EQ((*store->last_in(kLowest, {5, 4, 0}))->key, kLowest);
  EXPECT_EQ(store->scan(kLowest, kHighest, 1000)->size(), 502u);
  for (std::uint64_t i = 0; i < 500; ++i) ASSERT_TRUE(erase({5, 5, i}));
  EXPECT_EQ((*store->last_in(kLowest, {5, 9, 0}))->key, kLowest);
  reopen();
  EXPECT_EQ(store->scan(kLowest, kHighest, 1000)->size(), 2u);
}

TEST_F(StoreTest, InsertionInOrderFillsNodesAlsoInTheMiddleOfTheTree) {
  make(16, 256);
  for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_TRUE(put({i % 2 ? 1u : 9u, 1, i}, "edges"));
  ASSERT_TRUE(store->commit());
  const std::uint64_t before = store->stats().log_live_blocks;
  constexpr std::uint64_t kItems = 20000, kValueBytes = 30;
  for (std::uint64_t i = 0; i < kItems; ++i) {
    ASSERT_TRUE(put({5, 1, i}, std::string(kValueBytes, 'v')));
  }
  ASSERT_TRUE(store->commit());
  const std::uint64_t nodes = store->stats().log_live_blocks - before;
  const std::uint64_t full = kItems * (kValueBytes + 21) / kNodeRoomBytes;
  EXPECT_LE(nodes, full + full / 20 + 3);
}

TEST_F(StoreTest, RemovingEverythingLeavesOneNode) {
  make(8, 256);
  for (std::uint64_t i = 0; i < 20000; ++i) ASSERT_TRUE(put({i * 7919 % 20000, 1, 1}, "value"));
  EXPECT_GT(store->stats().tree_height, 2u);
  for (std::uint64_t i = 0; i < 20000; ++i) ASSERT_TRUE(erase({i * 104729 % 20000, 1, 1}));
  ASSERT_TRUE(store->commit());
  EXPECT_EQ(store->stats().log_live_blocks, 1u);
  EXPECT_EQ(store->stats().tree_height, 1u);
}

// A child of the root goes whole, and the next one takes its range over.
TEST_F(StoreTest, RangesWhoseInnerNodeHasGoneAreReadAndWrittenLikeOthers) {
  make(8, 512);
  Model model;
  const std::string value(1000, 'v');  // three to a leaf, some hundred leaves to an inner node
  for (std::uint64_t i = 0; i < 2000; ++i) {
    ASSERT_TRUE(put({1, 1, 1000 + i}, value));
    model[{1, 1, 1000 + i}] = value;
  }
  ASSERT_GE(store->stats().tree_height, 3u);
  const auto expect_same = [&] {
    EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
    EXPECT_EQ(contents_of(*store), model);
    for (std::uint64_t last = 900; last < 3000; last += 97) {
      const auto after_last = model.upper_bound({1, 1, last});
      const auto found = store->last_in({1, 1, 0}, {1, 1, last});
      ASSERT_TRUE(found) << describe(found.error());
      ASSERT_EQ(found->has_value(), after_last != model.begin()) << last;
      if (*found) {
        EXPECT_EQ((*found)->key, std::prev(after_last)->first);
      }
    }
  };
  for (const std::uint64_t first : {1000, 2000}) {  // at the beginning, and in the middle
    for (std::uint64_t i = first; i < first + 700; ++i) {
      ASSERT_TRUE(erase({1, 1, i}));
      model.erase({1, 1, i});
    }
    expect_same();
  }
  for (const std::uint64_t again : {2650, 1600, 2001, 1001, 5}) {
    for (std::uint64_t i = again; i < again + 40; ++i) {
      ASSERT_TRUE(put({1, 1, i}, value));
      model[{1, 1, i}] = value;
    }
    reopen();
    expect_same();
  }
}

TEST_F(StoreTest, ABatchIsAppliedWholeOrNotAtAll) {
  make();
  ASSERT_TRUE(put({1, 1, 1}, "no counter"));
  const std::int64_t one = 1;
  Batch batch;
  batch.put({1, 1, 0}, as_value("new"));
  batch.add({1, 1, 1}, std::span(&one, 1));
  EXPECT_EQ(store->apply(batch).error(), Errc::kItemBad);
  EXPECT_EQ(get({1, 1, 0}), std::nullopt);
  batch.clear();
  batch.put({1, 1, 0}, as_value("new"));
  batch.put({1, 1, 2}, std::vector<std::byte>(kMaxValueBytes + 1));
  EXPECT_EQ(store->apply(batch).error(), Errc::kValueTooLarge);
  EXPECT_EQ(get({1, 1, 0}), std::nullopt);
}

TEST_F(StoreTest, ABatchLargerThanATransactionIsRefusedAndHarmsNothing) {
  make(6, 64);
  Batch batch;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    batch.put({1, 1, i}, std::vector<std::byte>(kMaxValueBytes));
  }
  EXPECT_EQ(store->apply(batch).error(), Errc::kBatchTooLarge);
  EXPECT_TRUE(contents_of(*store).empty());
  EXPECT_TRUE(put({1, 1, 1}, "small"));
}

TEST_F(StoreTest, CountersAddUpFromNothingAndBelowNothing) {
  make();
  const std::vector<std::int64_t> up{3, 5}, down{-4, 0};
  Batch batch;
  batch.add({1, 1, 1}, up);
  ASSERT_TRUE(store->apply(batch));
  batch.clear();
  batch.add({1, 1, 1}, down);
  ASSERT_TRUE(store->apply(batch));
  reopen();
  const auto value = store->get({1, 1, 1});
  ASSERT_TRUE(value && *value);
  EXPECT_EQ(load_le_at<std::uint64_t>(bytes_of(**value), 0), static_cast<std::uint64_t>(-1));
  EXPECT_EQ(load_le_at<std::uint64_t>(bytes_of(**value), 8), 5u);
}

TEST_F(StoreTest, SequenceNumbersSayWhatIsDurable) {
  make();
  const Seq start = store->durable_seq();
  const auto first = put({1, 1, 1}, "a");
  ASSERT_TRUE(first);
  EXPECT_GT(*first, start);
  EXPECT_EQ(*put({1, 1, 2}, "b"), *first);
  EXPECT_EQ(store->durable_seq(), start);
  ASSERT_TRUE(store->commit());
  EXPECT_EQ(store->durable_seq(), *first);
  ASSERT_TRUE(store->commit());  // nothing new
  EXPECT_EQ(store->durable_seq(), *first);
  EXPECT_EQ(store->stats().transactions, 1u);
  // A change that changes nothing belongs to what is durable already.
  EXPECT_EQ(*put({1, 1, 2}, "b"), *first);
  EXPECT_EQ(*erase({7, 7, 7}), *first);
}

TEST_F(StoreTest, WhatWasNotCommittedIsGoneAfterAnEndWithoutClose) {
  make();
  ASSERT_TRUE(put({1, 1, 1}, "kept"));
  ASSERT_TRUE(store->commit());
  ASSERT_TRUE(put({1, 1, 2}, "lost"));
  store.reset();
  open();
  EXPECT_EQ(get({1, 1, 1}), "kept");
  EXPECT_EQ(get({1, 1, 2}), std::nullopt);
}

TEST_F(StoreTest, AReadOnlyStoreReadsAndRefusesChanges) {
  make();
  ASSERT_TRUE(put({1, 1, 1}, "value"));
  ASSERT_TRUE(store->close());
  options.read_only = true;
  open();
  EXPECT_EQ(get({1, 1, 1}), "value");
  EXPECT_EQ(put({1, 1, 2}, "x").error(), Errc::kReadOnly);
  EXPECT_TRUE(store->commit());
  EXPECT_TRUE(store->close());
}

TEST_F(StoreTest, FormatForgetsWhatWasThere) {
  make();
  ASSERT_TRUE(put({1, 1, 1}, "old"));
  ASSERT_TRUE(store->close());
  Superblock other = small_superblock(5);
  other.uuid[0] ^= 1;
  ASSERT_TRUE(Store::format(*device, other));
  open();
  EXPECT_EQ(get({1, 1, 1}), std::nullopt);
  EXPECT_EQ(store->superblock().label, "test");
  EXPECT_EQ(store->log_bands().size(), 5u + rescue_bands());
}

TEST_F(StoreTest, StatisticsSayWhatIsThere) {
  make(6, 64);
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(put({1, 1, i}, std::string(100, 'v')));
  EXPECT_GT(store->stats().nodes_dirty, 3u);
  ASSERT_TRUE(store->commit());
  const StoreStats stats = store->stats();
  EXPECT_EQ(stats.transactions, 1u);
  EXPECT_EQ(stats.nodes_dirty, 0u);
  EXPECT_EQ(stats.log_bands, 6u + rescue_bands());
  EXPECT_EQ(stats.log_total_blocks, (6u + rescue_bands()) * 64);
  EXPECT_EQ(stats.jmap_entries, stats.log_live_blocks);
  EXPECT_EQ(stats.nodes_written, stats.log_live_blocks);
  std::uint64_t live = 0;
  std::vector<BandId> bands;
  for (const auto& use : store->log_band_use()) {
    bands.push_back(use.band);
    live += use.live_blocks;
  }
  EXPECT_EQ(live, stats.log_live_blocks);
  EXPECT_EQ(bands, store->log_bands());
  EXPECT_EQ(stats.log_blocks_written, stats.nodes_written + 2);
  EXPECT_EQ(stats.tree_height, 2u);
  EXPECT_GE(stats.jmap_bytes, stats.jmap_entries * 56);
}

// The volume may have accepted more than a log that has lost bands can record.
TEST_F(StoreTest, WhenMoreIsPromisedThanTheLogCanRecordOrdinaryWorkGetsNoNode) {
  make();
  store->promise_with([] { return std::uint64_t{1} << 40; });
  EXPECT_FALSE(store->has_room_to_record(0));
  Result<Seq> applied = Seq{};
  std::uint64_t key = 0;
  for (; key < 20 && applied; ++key) applied = put({1, 1, key}, std::string(1000, 'p'));
  EXPECT_EQ(applied, fail(Errc::kLogFull));
  EXPECT_TRUE(put({1, 1, key}, std::string(1000, 'p'), Reserve::kPromised));
}

}  // namespace
}  // namespace lazyfs::meta
