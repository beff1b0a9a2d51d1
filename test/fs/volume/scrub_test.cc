// Finding damaged data and metadata on a mounted volume.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "device/faulty.h"
#include "device/memory.h"
#include "mkfs/mkfs.h"
#include "fs/item/schema.h"
#include "fs/volume/volume.h"
#include "meta/store/store.h"
#include "test/fsck/node_images.h"
#include "test/fsck/sample_volume.h"
#include "test/support/stats.h"

namespace lazyfs::fs {
namespace {

class ScrubTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {}));
    auto volume = Volume::mount(*device_, {.background = false});
    ASSERT_TRUE(volume);
    volume_ = std::move(*volume);
  }
  void TearDown() override { EXPECT_TRUE(volume_->unmount()); }

  InodeNo make(std::string_view name, std::size_t bytes) {
    const auto made = volume_->create(kRootInode, name, 0644, {});
    EXPECT_TRUE(made);
    const std::string text(bytes, name.front());
    EXPECT_TRUE(volume_->write(made->attributes.inode, 0, std::as_bytes(std::span(text))));
    volume_->release(made->file);
    EXPECT_TRUE(volume_->sync());
    return made->attributes.inode;
  }
  // Flips a bit of the file's block in the band that holds it now.
  void rot(InodeNo inode, std::uint64_t block) {
    const auto store = meta::Store::open(*device_, {.background = false, .read_only = true});
    ASSERT_TRUE(store);
    const auto item =
        (*store)->last_in(key_of(inode, Kind::kExtent), key_of(inode, Kind::kExtent, block));
    ASSERT_TRUE(item && *item);
    const auto extent = decode_extent((**item).value);
    ASSERT_TRUE(extent);
    const auto skip = static_cast<std::uint32_t>(block - (**item).key.offset);
    ASSERT_LT(skip, extent->blocks());
    device_->flip({extent->at.band, extent->at.rba + skip}, 4711);
  }
  // All steps: the damage found, as inode -> offsets, and the blocks read.
  struct Found {
    std::multimap<std::uint64_t, std::uint64_t> damaged;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> lost;  // inodes whose metadata is
    std::uint64_t blocks = 0, steps = 0;
  };
  Found scrub(std::size_t max_damaged = 1000) {
    Found found;
    std::optional<ScrubPlace> place = ScrubPlace{};
    while (place && found.steps < 1000) {
      const auto step = volume_->scrub(*place, max_damaged);
      EXPECT_TRUE(step);
      if (!step) break;
      for (const Damage& d : step->damaged) {
        if (!d.last) found.damaged.emplace(d.inode.value, d.offset);
        if (d.last) found.lost.emplace_back(d.inode.value, d.last->value);
      }
      found.blocks += step->blocks;
      found.steps += 1;
      place = step->next;
    }
    return found;
  }

  std::unique_ptr<device::MemoryDevice> device_ = device::MemoryDevice::uniform(128, 512);
  std::unique_ptr<Volume> volume_;
};

using Damaged = std::multimap<std::uint64_t, std::uint64_t>;

TEST_F(ScrubTest, UndamagedFilesAreReadOnce) {
  make("a", 100'000);  // 25 blocks
  make("b", 5);        // in the tree
  make("c", 2'000'000);
  const Found found = scrub();
  EXPECT_EQ(found.damaged, Damaged{});
  EXPECT_EQ(found.blocks, 25u + 489u);
}

TEST_F(ScrubTest, EmptyVolumeIsDoneAtOnce) {
  const Found found = scrub();
  EXPECT_EQ(found.steps, 1u);
  EXPECT_EQ(found.blocks, 0u);
}

TEST_F(ScrubTest, DamagedBlocksAreReported) {
  make("a", 100'000);
  const InodeNo b = make("b", 2'000'000), c = make("c", 3 * kBlockBytes);
  rot(b, 0);
  rot(b, 488);
  rot(c, 1);
  const Damaged all{{b.value, 0}, {b.value, 488 * kBlockBytes}, {c.value, kBlockBytes}};
  EXPECT_EQ(scrub().damaged, all);
}

TEST_F(ScrubTest, EachStepContinuesWhereTheLastOneEnded) {
  const InodeNo big = make("b", 80'000'000);  // 19532 blocks: more than two steps
  for (std::uint64_t block = 0; block < 19532; block += 40) rot(big, block);
  const Found found = scrub(128);
  EXPECT_EQ(found.damaged.size(), 489u);
  EXPECT_EQ(found.blocks, 19532u);
  EXPECT_GE(found.steps, 3u);
}

// Each node is made unreadable in turn: files that the report does not cover are still read.
TEST_F(ScrubTest, UnreadableMetadataIsReportedAndSkipped) {
  std::vector<InodeNo> files;
  for (int i = 0; i < 300; ++i) files.push_back(make("file" + std::to_string(i), 2 * kBlockBytes));
  for (const InodeNo file : files) rot(file, 1);
  ASSERT_TRUE(volume_->unmount());
  std::size_t nodes_named = 0, files_read = 0;
  for (const fsck::NodeImage& image : fsck::newest_images(*device_)) {
    if (image.node == 1) continue;  // the root: nothing could be mounted
    SCOPED_TRACE(image.node);
    device_->flip(image.at, 999);
    auto volume = Volume::mount(*device_, {.read_only = true, .background = false});
    if (volume) volume_ = std::move(*volume);
    const Found found = volume ? scrub() : Found{};
    device_->flip(image.at, 999);
    if (!volume) continue;  // the mount needs the node with the volume's own items
    nodes_named += found.lost.empty() ? 0 : 1;
    for (const InodeNo file : files) {
      const bool is_in_lost = std::ranges::any_of(found.lost, [&](const auto& lost) {
        return lost.first <= file.value && file.value <= lost.second;
      });
      const bool is_named = found.damaged.contains(file.value);
      EXPECT_TRUE(is_named || is_in_lost) << "inode " << file.value;
      files_read += is_named ? 1 : 0;
    }
  }
  EXPECT_GT(nodes_named, 10u);
  EXPECT_GT(files_read, nodes_named * files.size() / 2);
}

TEST_F(ScrubTest, BlocksThatDiedAreNotRead) {
  const InodeNo a = make("a", 100'000);
  rot(a, 3);
  ASSERT_TRUE(volume_->unlink(kRootInode, "a"));
  volume_->forget(a, 1);
  ASSERT_TRUE(volume_->collect_garbage());  // which ends deletions first
  EXPECT_EQ(scrub().damaged, Damaged{});
}

TEST_F(ScrubTest, ImpossiblePlaceIsRefused) {
  EXPECT_EQ(volume_->scrub({0, 0}, 1000).error(), Errc::kInvalid);
}

// Of a small volume made item by item.
class ScrubSampleTest : public testing::Test {
 protected:
  static constexpr InodeNo kInner{4}, kBig{6}, kLeft{8}, kRight{9};
  static constexpr BandId kB1 = fsck::SampleVolume::kB1, kB2 = fsck::SampleVolume::kB2,
                          kB3 = fsck::SampleVolume::kB3;

  void mount() {
    sample_.store.reset();
    auto volume = Volume::mount(faulty_, {.background = false});
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  void TearDown() override { EXPECT_TRUE(volume_->unmount()); }
  // What one step from `from` on reports, by inode and block.
  using Blocks = std::vector<std::pair<InodeNo, std::uint64_t>>;
  Blocks damaged_from(ScrubPlace from, std::size_t max_damaged = 1000) {
    const auto step = volume_->scrub(from, max_damaged);
    EXPECT_TRUE(step);
    next_ = step->next;
    Blocks blocks;
    for (const Damage& damage : step->damaged) {
      blocks.emplace_back(damage.inode, damage.offset / kBlockBytes);
    }
    return blocks;
  }

  fsck::SampleVolume sample_;
  device::FaultyDevice faulty_{*sample_.device};
  std::unique_ptr<Volume> volume_;
  std::optional<ScrubPlace> next_;
};

TEST_F(ScrubSampleTest, DamageOfASharedBlockIsReportedForEachFile) {
  sample_.device->flip({kB3, 1}, 7);
  mount();
  EXPECT_EQ(damaged_from({}), (Blocks{{kLeft, 1}, {kRight, 2}}));
  EXPECT_EQ(stat_of(*volume_, "data", "checksum_errors"), 2u);
}

TEST_F(ScrubSampleTest, UnreadableBlocksAreReportedAndCounted) {
  mount();
  faulty_.fail_when([](const device::CallInfo& call) -> std::optional<device::Fault> {
    const bool has_block = call.call == device::Call::kRead && call.at.band == kB2 &&
                           call.at.rba <= 1 && call.at.rba + call.blocks > 1;
    return has_block ? std::optional(device::Fault{Errc::kDeviceRead}) : std::nullopt;
  });
  EXPECT_EQ(damaged_from({}).front(), std::pair(kInner, std::uint64_t{1}));
  EXPECT_EQ(stat_of(*volume_, "data", "read_errors"), 1u);
  faulty_.mend();
}

TEST_F(ScrubSampleTest, AnExtentInABandThatDoesNotExistIsDamage) {
  sample_.change_extent(kInner.value, 0, [](ExtentRecord& e) { e.at.band = BandId{99}; });
  sample_.commit();
  mount();
  EXPECT_EQ(damaged_from({}), (Blocks{{kInner, 0}}));
}

// The next extent might have more damaged blocks than may be listed.
TEST_F(ScrubSampleTest, AStepThatMayListNoMoreEndsBeforeTheNextExtent) {
  sample_.device->flip({kB1, 1}, 7);
  sample_.device->flip({kB1, 4}, 7);
  mount();
  EXPECT_EQ(damaged_from({}, 1), (Blocks{{kBig, 1}}));
  ASSERT_TRUE(next_);
  EXPECT_EQ(next_->inode, kBig.value);
  EXPECT_EQ(next_->file_block, 4u);
  EXPECT_EQ(damaged_from(*next_, 1), (Blocks{{kBig, 4}}));
}

}  // namespace
}  // namespace lazyfs::fs
