#include "meta/store/readahead.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "test/meta/fixture.h"

namespace lazyfs::meta {
namespace {

using Window = Readahead::Window;

// How many blocks a miss is given in all, while the cache is full.
std::uint32_t blocks_at(Readahead& readahead, BandAddress at) {
  const Window window = readahead.window(at, false);
  EXPECT_EQ(window.before, 0u);
  EXPECT_EQ(window.later_before, 0u);
  return window.after + window.later_after;
}

TEST(ReadaheadTest, LoneMissReadsOneBlock) {
  Readahead readahead;
  EXPECT_EQ(blocks_at(readahead, {BandId{1}, 100}), 1u);
  EXPECT_EQ(blocks_at(readahead, {BandId{1}, 5000}), 1u);
  EXPECT_EQ(blocks_at(readahead, {BandId{2}, 101}), 1u);
}

TEST(ReadaheadTest, ReaderAlongTheLogIsGivenMoreUpToTheLimit) {
  Readahead readahead;
  std::uint32_t rba = 100;
  std::uint32_t expected = 1;
  for (int i = 0; i < 10; ++i) {
    const std::uint32_t blocks = blocks_at(readahead, {BandId{1}, rba});
    EXPECT_EQ(blocks, expected);
    rba += blocks;
    expected = std::min(2 * expected, Readahead::kMaxBlocks);
  }
}

TEST(ReadaheadTest, NobodyWaitsForMoreThanAFewBlocks) {
  for (const bool has_room : {false, true}) {
    Readahead readahead;
    for (std::uint32_t rba = 0; rba < 100'000; rba += 7) {
      const Window window = readahead.window({BandId{1}, rba}, has_room);
      EXPECT_LE(window.before + window.after, 16u);
      EXPECT_GE(window.after, 1u);
      EXPECT_LE(window.before, rba);
    }
  }
}

TEST(ReadaheadTest, LoneMissBringsItsNeighboursWhileThereIsRoom) {
  Readahead readahead;
  const Window window = readahead.window({BandId{1}, 5000}, true);
  EXPECT_EQ(window.before, Readahead::kAroundBlocks);
  EXPECT_EQ(window.after + window.later_after, 32u);
  EXPECT_EQ(readahead.window({BandId{2}, 2}, true).before, 2u);
}

TEST(ReadaheadTest, ReaderIsGivenItsWholeSurroundingsWhileThereIsRoom) {
  Readahead readahead;
  Window window;
  for (const std::uint32_t rba : {5000u, 5030u, 4990u, 5100u, 4970u}) {
    window = readahead.window({BandId{1}, rba}, true);
  }
  EXPECT_EQ(window.after + window.later_after, Readahead::kMaxRoomyBlocks);
  EXPECT_EQ(window.later_before, window.later_after / 2);
}

TEST(ReadaheadTest, ReadersOfSeveralPlacesDoNotDisturbEachOther) {
  Readahead readahead;
  EXPECT_EQ(blocks_at(readahead, {BandId{1}, 0}), 1u);
  EXPECT_EQ(blocks_at(readahead, {BandId{2}, 0}), 1u);
  EXPECT_EQ(blocks_at(readahead, {BandId{1}, 1}), 2u);
  EXPECT_EQ(blocks_at(readahead, {BandId{2}, 1}), 2u);
}

TEST(ReadaheadTest, ForgetsTheReaderThatWasIdleLongest) {
  Readahead readahead;
  for (std::uint32_t band = 0; band < 9; ++band) blocks_at(readahead, {BandId{band}, 0});
  EXPECT_EQ(blocks_at(readahead, {BandId{8}, 1}), 2u);
  EXPECT_EQ(blocks_at(readahead, {BandId{0}, 1}), 1u);
}

constexpr std::uint64_t kStoredItems = 20'000;

std::unique_ptr<device::MemoryDevice> device_with_items() {
  auto device = device::MemoryDevice::uniform(16, 1024);
  EXPECT_TRUE(Store::format(*device, small_superblock(6)));
  const std::string value(100, 'v');
  auto store = Store::open(*device, quiet_options());
  EXPECT_TRUE(store);
  for (std::uint64_t i = 0; i < kStoredItems; ++i) {
    Batch batch;
    batch.put({i, 1, 0}, as_value(value));
    EXPECT_TRUE((*store)->apply(batch, Reserve::kNone));
  }
  EXPECT_TRUE((*store)->close());
  return device;
}

// Nodes made together are read together: a cold walk takes far fewer reads than there are nodes.
TEST(ReadaheadTest, ColdWalkOfNodesMadeTogetherTakesFewReads) {
  const auto device = device_with_items();
  auto store = Store::open(*device, quiet_options());
  ASSERT_TRUE(store);
  EXPECT_EQ(contents_of(**store).size(), kStoredItems);
  const StoreStats stats = (*store)->stats();
  EXPECT_GT(stats.nodes_cached, 500u);
  EXPECT_LT(stats.node_reads * 8, stats.nodes_cached);
}

// With room in the cache and without: whoever reads, alone or beside a thread that reads ahead and
// beside each other, sees each item.
TEST(ReadaheadTest, ThreadThatReadsAheadBringsTheRightNodes) {
  const std::uint64_t seed = test_seed();
  const auto device = device_with_items();
  for (const std::size_t cache_bytes : {std::size_t{1} << 18, std::size_t{64} << 20}) {
    StoreOptions options = quiet_options();
    options.background = true;
    options.cache_bytes = cache_bytes;
    auto store = Store::open(*device, options);
    ASSERT_TRUE(store);
    std::vector<std::thread> readers;
    for (unsigned reader = 0; reader < 3; ++reader) {
      readers.emplace_back([&, reader] {
        std::mt19937_64 random(seed + reader);
        for (std::uint64_t i = 0; i < kStoredItems; ++i) {
          const Key key{reader == 0 ? i : random() % kStoredItems, 1, 0};
          const auto value = (*store)->get(key);
          ASSERT_TRUE(value && *value);
        }
      });
    }
    for (std::thread& reader : readers) reader.join();
    EXPECT_LE((*store)->stats().nodes_cached, cache_bytes / kBlockBytes + 64);
    ASSERT_TRUE((*store)->close());
  }
}

TEST(ReadaheadTest, ClosingWhileItReadsAheadEndsIt) {
  const auto device = device_with_items();
  for (std::uint64_t reads = 1; reads < 40; ++reads) {
    StoreOptions options = quiet_options();
    options.background = true;
    auto store = Store::open(*device, options);
    ASSERT_TRUE(store);
    for (std::uint64_t i = 0; i < reads; ++i) ASSERT_TRUE((*store)->get({i * 61, 1, 0}));
    ASSERT_TRUE((*store)->close());
  }
}

}  // namespace
}  // namespace lazyfs::meta
