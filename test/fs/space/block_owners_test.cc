#include "fs/space/block_owners.h"

#include "test/fsck/sample_volume.h"

namespace lazyfs::fs {
namespace {

using fsck::SampleVolume;

std::vector<FileRun> runs_in(SampleVolume& volume, std::uint64_t inode) {
  return runs_of(*volume.store, InodeNo{inode}).value();
}

TEST(BlockOwnersTest, ListsTheRunsOfAFileWithItsHoles) {
  SampleVolume volume;
  const auto runs = runs_in(volume, 6);
  std::uint64_t blocks = 0;
  for (const FileRun& run : runs) {
    EXPECT_EQ(run.at.band, SampleVolume::kB1);
    EXPECT_FALSE(run.is_shared);
    EXPECT_FALSE(run.file_block <= 3 && 3 < run.file_block + run.blocks) << "the hole";
    blocks += run.blocks;
  }
  EXPECT_EQ(blocks, 8u);
  EXPECT_TRUE(runs_in(volume, 2).empty()) << "the tree holds its contents";
}

TEST(BlockOwnersTest, ARunEndsWhereTheFileOrTheBandJumps) {
  SampleVolume volume;
  const auto put = [&](std::uint64_t file_block, BandAddress at) {
    volume.put(key_of(InodeNo{4}, Kind::kExtent, file_block),
               encode(ExtentRecord{at, at.rba, {0}}));
  };
  const BandId b1 = SampleVolume::kB1, b2 = SampleVolume::kB2;
  put(0, {b2, 0});
  put(1, {b2, 1});  // continues
  put(5, {b2, 2});  // after a hole
  put(6, {b2, 4});  // after another file's block
  put(7, {b1, 5});  // in another band
  volume.commit();
  const auto run = [](std::uint64_t file_block, BandAddress at, std::uint64_t blocks) {
    return FileRun{InodeNo{4}, file_block, at, blocks};
  };
  EXPECT_EQ(runs_in(volume, 4), (std::vector{run(0, {b2, 0}, 2), run(5, {b2, 2}, 1),
                                             run(6, {b2, 4}, 1), run(7, {b1, 5}, 1)}));
}

TEST(BlockOwnersTest, ListsMoreRunsThanOneScanReturns) {
  constexpr std::uint64_t kRuns = 2500;
  SampleVolume volume;
  for (std::uint64_t i = 0; i < kRuns; ++i) {
    volume.put(key_of(InodeNo{4}, Kind::kExtent, 2 * i),
               encode(ExtentRecord{{SampleVolume::kB2, 0}, 0, {0}}));
    if (i % 500 == 0) volume.commit();
  }
  volume.commit();
  EXPECT_EQ(runs_in(volume, 4).size(), kRuns);
}

TEST(BlockOwnersTest, FollowsReferencesToSharedBlocks) {
  SampleVolume volume;
  const FileRun left{InodeNo{8}, 0, {SampleVolume::kB3, 0}, 4, true};
  const FileRun right{InodeNo{9}, 1, {SampleVolume::kB3, 0}, 2, true};
  EXPECT_EQ(runs_in(volume, 8), std::vector{left});
  EXPECT_EQ(runs_in(volume, 9), std::vector{right});
}

TEST(BlockOwnersTest, FindsTheFilesOfABandAndOfABlock) {
  SampleVolume volume;
  const auto all = owners_of(*volume.store, {SampleVolume::kB2, 0}, UINT32_MAX);
  ASSERT_TRUE(all);
  const FileRun inner{InodeNo{4}, 0, {SampleVolume::kB2, 0}, 3};
  const FileRun nameless{InodeNo{7}, 0, {SampleVolume::kB2, 3}, 2};
  EXPECT_EQ(*all, (std::vector{inner, nameless}));
  const FileRun last_block{InodeNo{4}, 2, {SampleVolume::kB2, 2}, 1};
  EXPECT_EQ(owners_of(*volume.store, {SampleVolume::kB2, 2}, 1).value(), std::vector{last_block});
  EXPECT_TRUE(owners_of(*volume.store, {SampleVolume::kB2, 5}, 1)->empty());
  EXPECT_TRUE(owners_of(*volume.store, {SampleVolume::kUnused, 0}, UINT32_MAX)->empty());
}

TEST(BlockOwnersTest, NamesAllFilesOfASharedBlock) {
  SampleVolume volume;
  const auto owners = owners_of(*volume.store, {SampleVolume::kB3, 1}, 1);
  ASSERT_TRUE(owners);
  const FileRun left{InodeNo{8}, 1, {SampleVolume::kB3, 1}, 1, true};
  const FileRun right{InodeNo{9}, 2, {SampleVolume::kB3, 1}, 1, true};
  EXPECT_EQ(*owners, (std::vector{left, right}));
  EXPECT_TRUE(owners_of(*volume.store, {SampleVolume::kB3, 4}, 1)->empty()) << "it is dead";
}

TEST(BlockOwnersTest, VisitsEachFileWithDataOnce) {
  SampleVolume volume;
  std::vector<std::uint64_t> inodes;
  ASSERT_TRUE(visit_files(*volume.store, [&](InodeNo inode, const std::vector<FileRun>&) {
    inodes.push_back(inode.value);
  }));
  EXPECT_EQ(inodes, (std::vector<std::uint64_t>{4, 6, 7, 8, 9}));
}

TEST(BlockOwnersTest, KnowsPathsOfWhatHasAName) {
  SampleVolume volume;
  const auto paths = paths_of(*volume.store, {InodeNo{1}, InodeNo{3}, InodeNo{4}, InodeNo{7}});
  ASSERT_TRUE(paths);
  EXPECT_EQ(*paths, (std::map<InodeNo, std::string>{
                        {InodeNo{1}, "/"}, {InodeNo{3}, "/dir"}, {InodeNo{4}, "/dir/inner"}}));
}

}  // namespace
}  // namespace lazyfs::fs
