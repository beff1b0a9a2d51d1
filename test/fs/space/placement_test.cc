// The thesis' anecdote (section 6.1): chunks as long as a band, each preceded by a tiny file, left
// every other band nearly empty.
#include <gtest/gtest.h>


#include "device/memory.h"
#include "mkfs/mkfs.h"
#include "fs/volume/volume.h"
#include "test/support/stats.h"

namespace lazyfs::fs {
namespace {

constexpr std::uint32_t kBands = 256, kBandBlocks = 48;

class PlacementTest : public testing::TestWithParam<data::Placement> {};

// The share of the begun bands that is not written.
double wasted_share(Volume& volume) {
  const auto space = stats_of(volume)["space"];
  const std::uint64_t free = space["free_bands"].number() * kBandBlocks;
  const std::uint64_t begun = space["total_blocks"].number() - free;
  return static_cast<double>(space["unwritten_blocks"].number() - free) /
         static_cast<double>(begun);
}

TEST_P(PlacementTest, ChunksThatFollowTinyFilesWasteNoBands) {
  for (const std::size_t tiny_bytes : {300, 6000}) {  // kept in the tree, and in two blocks
    const auto device = device::MemoryDevice::uniform(kBands, kBandBlocks);
    ASSERT_TRUE(mkfs::make_filesystem(*device, {}));
    auto mounted = Volume::mount(*device, {.placement = GetParam(), .background = false});
    ASSERT_TRUE(mounted) << describe(mounted.error());
    Volume& volume = **mounted;
    const auto put = [&](const std::string& name, std::size_t length) {
      const auto made = volume.create(kRootInode, name, 0644, {});
      ASSERT_TRUE(made);
      volume.release(made->file);
      const std::vector<std::byte> bytes(length, std::byte{1});
      ASSERT_TRUE(volume.write(made->attributes.inode, 0, bytes));
      ASSERT_TRUE(volume.sync());
    };
    for (int i = 0; i < 180; ++i) {
      put(std::to_string(i) + ".meta", tiny_bytes);
      put(std::to_string(i), std::size_t{kBandBlocks} * kBlockBytes);
    }
    EXPECT_LT(wasted_share(volume), 0.02) << "with " << tiny_bytes << " bytes";
    ASSERT_TRUE(volume.unmount());
  }
}

INSTANTIATE_TEST_SUITE_P(, PlacementTest,
                         testing::Values(data::Placement::kFirstFit, data::Placement::kBestFit,
                                         data::Placement::kAgeFit, data::Placement::kRandom));

}  // namespace
}  // namespace lazyfs::fs
