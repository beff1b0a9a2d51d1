#include "sim/volume_map.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <vector>

namespace lazyfs::sim {
namespace {

using Piece = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;  // disk, sector, sectors

std::vector<Piece> pieces(const VolumeShape& shape, std::uint64_t sector, std::uint32_t sectors) {
  std::vector<Piece> found;
  VolumeMap(shape).pieces(sector, sectors, [&](auto... piece) { found.emplace_back(piece...); });
  return found;
}

TEST(VolumeMapTest, ASingleDiskKeepsAddresses) {
  EXPECT_EQ(pieces({.disk_sectors = 1000}, 100, 300), (std::vector<Piece>{{0, 100, 300}}));
}

TEST(VolumeMapTest, AnArrayStripesOverItsDisks) {
  const VolumeShape shape{.disks = 3, .disk_sectors = 1000, .stripe_sectors = 10};
  EXPECT_EQ(VolumeMap(shape).sectors(), 3000u);
  EXPECT_EQ(pieces(shape, 25, 20),
            (std::vector<Piece>{{2, 5, 5}, {0, 10, 10}, {1, 10, 5}}));
}

TEST(VolumeMapTest, ADiskOfPermutedChunksKeepsTheOrderWithinAChunk) {
  const VolumeShape shape{.disk_sectors = 1000, .chunk_sectors = 100, .permute_seed = 3};
  std::set<std::uint64_t> bases;
  for (std::uint64_t chunk = 0; chunk < 10; ++chunk) {
    const auto found = pieces(shape, chunk * 100 + 20, 50);
    ASSERT_EQ(found.size(), 1u);
    const auto [disk, sector, sectors] = found[0];
    EXPECT_EQ(sector % 100, 20u);
    EXPECT_EQ(sectors, 50u);
    bases.insert(sector - 20);
  }
  EXPECT_EQ(bases.size(), 10u);
  EXPECT_EQ(pieces(shape, 20, 50), pieces(shape, 20, 50));
}

TEST(VolumeMapTest, AVolumePermutesBeforeItStripes) {
  VolumeShape shape{.disks = 2, .disk_sectors = 1000, .stripe_sectors = 10, .chunk_sectors = 20};
  // tbl[0] is the permuted base of chunk 0; its two stripes lie on both disks.
  const auto found = pieces(shape, 0, 20);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NE(std::get<0>(found[0]), std::get<0>(found[1]));
}

TEST(VolumeMapTest, AStupidVolumeCutsAndPermutesBlocksOf8Sectors) {
  const VolumeShape shape{.disk_sectors = 8000, .is_stupid = true, .stupid_seed = 1};
  const auto found = pieces(shape, 4, 20);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(std::get<2>(found[0]), 4u);
  EXPECT_EQ(std::get<2>(found[1]), 8u);
  EXPECT_EQ(std::get<2>(found[2]), 8u);
  EXPECT_NE(std::get<1>(found[1]) + 8, std::get<1>(found[2]));
}

TEST(VolumeMapTest, WhatIsLeftOfAChunkAtTheEndKeepsItsPlace) {
  const VolumeShape shape{.disk_sectors = 1050, .chunk_sectors = 100, .permute_seed = 3};
  EXPECT_EQ(pieces(shape, 1000, 50), (std::vector<Piece>{{0, 1000, 50}}));
}

TEST(PermutationTest, HitsEachNumberOnce) {
  for (const std::uint64_t count : {1, 2, 3, 1000, 4097}) {
    const Permutation permutation(count, 42);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < count; ++i) {
      EXPECT_LT(permutation(i), count);
      seen.insert(permutation(i));
    }
    EXPECT_EQ(seen.size(), count);
  }
}

TEST(PermutationTest, DependsOnItsSeed) {
  const Permutation one(1'000'000, 1), other(1'000'000, 2);
  int same = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) same += one(i) == other(i);
  EXPECT_LT(same, 5);
}

}  // namespace
}  // namespace lazyfs::sim
