// A namespace ten times as large as the node cache: the cache keeps to its limit, and what is
// looked up at random costs a read for its leaf and hardly ever one more.
#include "test/meta/fixture.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint64_t kNames = 40'000;  // in one directory
constexpr std::uint64_t kSlack = 8;       // pinned while threads work

std::uint64_t hash_of(std::uint64_t name) { return (name + 1) * 0x9E3779B97F4A7C15ull; }

class CacheTest : public ::testing::Test {
 protected:
  // Each name is an entry under its hash, one under its number, and an inode.
  void make_names(std::size_t cache_nodes) {
    device = device::MemoryDevice::uniform(12, 8192);
    ASSERT_TRUE(Store::format(*device, small_superblock(8)));
    open(cache_nodes);
    const std::string inode(128, 'i'), entry(34, 'e');
    for (std::uint64_t name = 0; name < kNames; ++name) {
      Batch batch;
      batch.put({1, 2, hash_of(name) & kMaxOffset}, as_value(entry));
      batch.put({1, 3, name + 1}, as_value(entry));
      batch.put({1000 + name, 1, 0}, as_value(inode));
      ASSERT_TRUE(store->apply(batch));
      const StoreStats stats = store->stats();
      ASSERT_LE(stats.nodes_cached, cache_nodes + stats.nodes_dirty + kSlack);
    }
  }
  void open(std::size_t cache_nodes) {
    store.reset();
    StoreOptions options = quiet_options();
    options.cache_bytes = cache_nodes * kBlockBytes;
    auto opened = Store::open(*device, options);
    ASSERT_TRUE(opened) << describe(opened.error());
    store = std::move(*opened);
  }
  std::uint64_t reads_of(Key key) {
    const std::uint64_t before = store->stats().node_reads;
    const auto got = store->get(key);
    EXPECT_TRUE(got && *got);
    return store->stats().node_reads - before;
  }

  std::unique_ptr<device::MemoryDevice> device;
  std::unique_ptr<Store> store;
};

TEST_F(CacheTest, KeepsToItsLimitAndNeedsTwoReadsForAColdLookup) {
  std::mt19937_64 random(test_seed());
  make_names(400);
  ASSERT_TRUE(store->close());
  const std::uint64_t nodes = store->stats().jmap_entries;
  const std::size_t limit = nodes / 10;
  open(limit);
  ASSERT_GE(store->stats().tree_height, 3u);
  // The way to every leaf is soon known.
  for (int i = 0; i < 3000; ++i) {
    reads_of({1, 2, hash_of(random() % kNames) & kMaxOffset});
    reads_of({1000 + random() % kNames, 1, 0});
  }
  std::uint64_t total = 0, longer = 0;
  constexpr std::uint64_t kLookups = 10'000;
  for (std::uint64_t i = 0; i < kLookups; ++i) {
    // As lookup does it: the entry by the hash of its name, and the inode.
    const std::uint64_t name = random() % kNames;
    const std::uint64_t entry = reads_of({1, 2, hash_of(name) & kMaxOffset});
    const std::uint64_t reads = entry + reads_of({1000 + name, 1, 0});
    total += reads;
    ASSERT_LE(reads, 3u);
    if (reads > 2) ++longer;
    ASSERT_LE(store->stats().nodes_cached, limit + kSlack);
  }
  EXPECT_GT(total, kLookups);  // they were cold
  // An inner node that leads to a single leaf is seldom needed, and may have been evicted.
  EXPECT_LE(longer, kLookups / 500);
}

TEST_F(CacheTest, ACacheSmallerThanTheInnerNodesKeepsToItsLimitToo) {
  std::mt19937_64 random(test_seed());
  make_names(400);
  ASSERT_TRUE(store->close());
  open(16);
  for (int i = 0; i < 3000; ++i) {
    reads_of({1, 2, hash_of(random() % kNames) & kMaxOffset});
    ASSERT_LE(store->stats().nodes_cached, 16 + kSlack);
  }
}

TEST_F(CacheTest, KeepsToItsLimitWhenEverythingIsReadInOrder) {
  make_names(400);
  ASSERT_TRUE(store->close());
  open(200);
  EXPECT_EQ(contents_of(*store).size(), 3 * kNames);
  EXPECT_LE(store->stats().nodes_cached, 200 + kSlack);
  EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
  EXPECT_LE(store->stats().nodes_cached, 200 + kSlack);
}

}  // namespace
}  // namespace lazyfs::meta
