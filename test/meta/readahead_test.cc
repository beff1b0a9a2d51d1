#include "meta/readahead.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace lazyfs::meta {
namespace {

TEST(ReadaheadTest, LoneMissReadsOneBlock) {
  Readahead readahead;
  EXPECT_EQ(readahead.blocks({BandId{1}, 100}), 1u);
  EXPECT_EQ(readahead.blocks({BandId{1}, 5000}), 1u);
  EXPECT_EQ(readahead.blocks({BandId{2}, 101}), 1u);
}

TEST(ReadaheadTest, ReaderAlongTheLogIsGivenMoreUpToTheLimit) {
  Readahead readahead;
  std::uint32_t rba = 100;
  std::uint32_t expected = 1;
  for (int i = 0; i < 10; ++i) {
    const std::uint32_t blocks = readahead.blocks({BandId{1}, rba});
    EXPECT_EQ(blocks, expected);
    rba += blocks;
    expected = std::min(2 * expected, Readahead::kMaxBlocks);
  }
}

TEST(ReadaheadTest, ReadersOfSeveralPlacesDoNotDisturbEachOther) {
  Readahead readahead;
  EXPECT_EQ(readahead.blocks({BandId{1}, 0}), 1u);
  EXPECT_EQ(readahead.blocks({BandId{2}, 0}), 1u);
  EXPECT_EQ(readahead.blocks({BandId{1}, 1}), 2u);
  EXPECT_EQ(readahead.blocks({BandId{2}, 1}), 2u);
}

TEST(ReadaheadTest, ForgetsTheReaderThatWasIdleLongest) {
  Readahead readahead;
  for (std::uint32_t band = 0; band < 9; ++band) readahead.blocks({BandId{band}, 0});
  EXPECT_EQ(readahead.blocks({BandId{8}, 1}), 2u);
  EXPECT_EQ(readahead.blocks({BandId{0}, 1}), 1u);
}

// Nodes made together are read together: a cold walk takes far fewer reads than there are nodes.
TEST(ReadaheadTest, ColdWalkOfNodesMadeTogetherTakesFewReads) {
  auto device = device::MemoryDevice::uniform(16, 1024);
  ASSERT_TRUE(Store::format(*device, small_superblock(6)));
  const std::string value(100, 'v');
  {
    auto store = Store::open(*device, quiet_options());
    ASSERT_TRUE(store);
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      Batch batch;
      batch.put({i, 1, 0}, as_value(value));
      ASSERT_TRUE((*store)->apply(batch, Reserve::kNone));
    }
    ASSERT_TRUE((*store)->close());
  }
  auto store = Store::open(*device, quiet_options());
  ASSERT_TRUE(store);
  EXPECT_EQ(contents_of(**store).size(), 20'000u);
  const StoreStats stats = (*store)->stats();
  EXPECT_GT(stats.nodes_cached, 500u);
  EXPECT_LT(stats.node_reads * 8, stats.nodes_cached);
}

}  // namespace
}  // namespace lazyfs::meta
