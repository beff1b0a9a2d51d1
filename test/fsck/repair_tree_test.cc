// Repairs of volumes whose tree, superblock, or metadata log is damaged.
#include <gtest/gtest.h>

#include <algorithm>

#include "device/faulty.h"
#include "meta/log/log_layout.h"
#include "meta/log/superblock.h"
#include "meta/tree/node_page.h"
#include "test/fsck/node_images.h"
#include "test/fsck/repaired.h"
#include "test/support/rounds.h"

namespace lazyfs::fsck {
namespace {

// A volume with several levels of nodes: 3000 small files, and 40 with blocks.
class DamagedTreeTest : public testing::Test {
 protected:
  void SetUp() override {
    device = device::MemoryDevice::uniform(64, 256);
    FixedClock clock;
    ASSERT_TRUE(mkfs::make_filesystem(*device, {.uuid = sample_uuid()}, clock));
    const auto volume = Volume::mount(*device, {.background = false}, clock);
    ASSERT_TRUE(volume);
    for (int i = 0; i < 3000; ++i) {
      const std::string name = "f" + std::to_string(i);
      const auto created = (*volume)->create(kRootInode, name, 0644, {});
      ASSERT_TRUE(created);
      const std::string bytes(i % 75 == 0 ? 9000 : 50, static_cast<char>('a' + i % 26));
      ASSERT_TRUE((*volume)->write(created->attributes.inode, 0, std::as_bytes(std::span(bytes))));
      (*volume)->release(created->file);
      if (i % 500 == 0) {
        ASSERT_TRUE((*volume)->sync());
      }
    }
    ASSERT_TRUE((*volume)->unmount());
    all = Readable::of(*device);
    ASSERT_EQ(all.size(), 3000u);
  }

  // Where the newest images of nodes lie that `wanted` picks.
  template <class Wanted>
  std::vector<BandAddress> images(Wanted wanted) {
    std::vector<BandAddress> found;
    for (const NodeImage& image : newest_images(*device)) {
      if (wanted(image.node, image.level)) found.push_back(image.at);
    }
    return found;
  }

  Strings repair() {
    Strings changes;
    const auto listener = [&](const std::string& text) { changes.push_back(text); };
    const auto store = open_for_repair(*device, listener);
    EXPECT_TRUE(store) << describe(store.error());
    if (!store) return changes;
    FixedClock clock;
    const RepairReport report = fsck::repair(**store, *device, clock, listener);
    EXPECT_TRUE(report.result) << describe(report.result.error());
    losses = report.losses;
    Strings left;
    EXPECT_TRUE(check(**store, *device, {.data = true},
                      [&](const std::string& text) { left.push_back(text); }));
    EXPECT_EQ(left, Strings{});
    EXPECT_TRUE((*store)->close());
    return changes;
  }

  // Several bands with few appends each, so that the logs of most lie within one leaf.
  void fill_some_bands() {
    FixedClock clock;
    const auto volume = Volume::mount(*device, {.background = false}, clock);
    ASSERT_TRUE(volume);
    const auto created = (*volume)->create(kRootInode, "large", 0644, {});
    ASSERT_TRUE(created);
    const std::vector<std::byte> bytes(std::size_t{6} << 20, std::byte{7});
    ASSERT_TRUE((*volume)->write(created->attributes.inode, 0, bytes));
    (*volume)->release(created->file);
    ASSERT_TRUE((*volume)->unmount());
  }

  // Loses the root, all inner nodes, and the leaves that map file blocks: the leaves
  // that are left do not fit a new root, and go into the tree item by item.
  void lose_the_tree_and_extents() {
    for (const BandAddress at : images([](auto, int level) { return level > 0; })) {
      device->flip(at, 5000);
    }
    AlignedBuffer block(kBlockBytes);
    for (const BandAddress at : images([](auto, int level) { return level == 0; })) {
      ASSERT_TRUE(device->read(at, block.span()));
      const meta::ConstNodePage page(block.data());
      for (unsigned i = 0; i < page.count(); ++i) {
        if (page.key(i).owner > kRootInode.value &&
            page.key(i).kind == static_cast<std::uint8_t>(Kind::kExtent)) {
          device->flip(at, 5000);
          break;
        }
      }
    }
  }

  static std::unique_ptr<device::MemoryDevice> copy_of(device::MemoryDevice& from) {
    auto copy = std::make_unique<device::MemoryDevice>(from.geometry(), from.capabilities());
    for (std::uint32_t band = 0; band < from.geometry().band_count(); ++band) {
      const std::uint32_t end = *from.write_pointer(BandId{band});
      std::vector<std::byte> bytes(std::size_t{end} * kBlockBytes);
      from.peek({BandId{band}, 0}, bytes);
      copy->poke({BandId{band}, 0}, bytes);
      copy->place_write_pointer(BandId{band}, end);
    }
    return copy;
  }

  // Repairs while every transaction is committed that changes more than a few nodes.
  static Result<RepairReport> repair_in_pieces(device::Device& device) {
    FixedClock clock;
    const auto listener = [](const std::string&) {};
    ASSIGN_OR_RETURN(
        const auto store,
        open_for_repair(device, listener,
                        {.cache_bytes = std::size_t{64} * kBlockBytes, .background = false}));
    RepairReport report = fsck::repair(*store, device, clock, listener);
    TRY(report.result);
    TRY(store->close());
    return report;
  }

  // Each file that is left is as it was, but for those with a loss: inline contents are stored
  // once, and read as zeros. Returns how many files are not left.
  std::size_t lost_files() {
    const auto now = Readable::of(*device);
    for (const auto& [inode, contents] : now) {
      if (!all.contains(inode)) continue;
      // One whose size was lost ends where its last block does.
      const std::string begin = contents.substr(0, all.at(inode).size());
      const bool is_zeroed = begin == std::string(begin.size(), '\0');
      if (is_zeroed && has_loss(inode)) continue;
      EXPECT_EQ(begin, all.at(inode)) << "inode " << inode;
    }
    return static_cast<std::size_t>(
        std::ranges::count_if(all, [&](const auto& file) { return !now.contains(file.first); }));
  }

  bool has_loss(std::uint64_t inode) const {
    return std::ranges::count(losses, InodeNo{inode}, &Loss::inode) > 0;
  }
  // Leaves that begin with inline contents: the inode's record is in the leaf before.
  std::vector<BandAddress> leaves_that_begin_with_contents() {
    AlignedBuffer block(kBlockBytes);
    std::vector<BandAddress> found;
    for (const BandAddress at : images([](auto, int level) { return level == 0; })) {
      if (!device->read(at, block.span())) continue;
      const meta::ConstNodePage page(block.data());
      const auto inline_kind = static_cast<std::uint8_t>(Kind::kInline);
      if (page.count() > 0 && page.key(0).kind == inline_kind) found.push_back(at);
    }
    return found;
  }

  std::unique_ptr<device::MemoryDevice> device;
  Readable::Contents all;
  std::vector<Loss> losses;  // of the last repair
};

TEST_F(DamagedTreeTest, CleanTreeStaysAsItIs) { EXPECT_EQ(repair(), Strings{}); }

TEST_F(DamagedTreeTest, LostRootCostsNothing) {
  for (const BandAddress at : images([](auto node, int) { return node == 1; })) {
    device->flip(at, 5000);
  }
  EXPECT_FALSE(repair().empty());
  EXPECT_EQ(lost_files(), 0u);
  EXPECT_TRUE(losses.empty());
}

TEST_F(DamagedTreeTest, LostInnerNodesCostNothing) {
  const auto inner = images([](auto node, int level) { return node != 1 && level > 0; });
  for (const BandAddress at : inner) device->flip(at, 5000);
  EXPECT_FALSE(repair().empty());
  EXPECT_EQ(lost_files(), 0u);
  EXPECT_TRUE(losses.empty());
}

TEST_F(DamagedTreeTest, AllInnerNodesAndTheRootLostCostNothing) {
  for (const BandAddress at : images([](auto, int level) { return level > 0; })) {
    device->flip(at, 5000);
  }
  EXPECT_FALSE(repair().empty());
  EXPECT_EQ(lost_files(), 0u);
  EXPECT_TRUE(losses.empty());
}

TEST_F(DamagedTreeTest, LostLeafCostsWhatItHeldAtMost) {
  const auto leaves = images([](auto, int level) { return level == 0; });
  ASSERT_GT(leaves.size(), 100u);
  for (std::size_t i = 0; i < leaves.size(); i += leaves.size() / 5) {
    SCOPED_TRACE(i);
    SetUp();
    device->flip(leaves[i], 5000);
    repair();
    EXPECT_LE(lost_files(), 80u);
  }
}

TEST_F(DamagedTreeTest, ContentsThatBeginALostLeafAreReported) {
  const auto leaves = leaves_that_begin_with_contents();
  ASSERT_GT(leaves.size(), 2u);
  for (const BandAddress at : leaves) device->flip(at, 5000);
  repair();
  lost_files();
  const auto now = Readable::of(*device);
  std::size_t zeroed = 0;
  for (const auto& [inode, contents] : now) {
    const bool was_lost = all.contains(inode) && contents != all.at(inode);
    EXPECT_TRUE(!was_lost || has_loss(inode)) << inode;
    zeroed += was_lost ? 1 : 0;
  }
  EXPECT_GT(zeroed, 1u);
}

// Whatever the band held: a spare one costs nothing, others what was in them.
TEST_F(DamagedTreeTest, ALogBandThatIsOfflineIsTakenOutOfTheLog) {
  const auto superblock = meta::read_superblock(*device);
  ASSERT_TRUE(superblock);
  std::size_t without_loss = 0, repaired = 0;
  for (const BandId band : superblock->log_bands) {
    SCOPED_TRACE(band.value);
    SetUp();
    device->retire(band, device::BandCondition::kOffline);
    EXPECT_EQ(meta::Store::open(*device, {.background = false}).error(), Errc::kBandOffline);
    if (!open_for_repair(*device, [](const std::string&) {})) continue;  // the map needs it
    repair();
    ++repaired;
    without_loss += lost_files() == 0 ? 1 : 0;
    EXPECT_TRUE(Volume::mount(*device, {.background = false}));
  }
  EXPECT_GT(without_loss, 0u);
  EXPECT_GT(repaired, superblock->log_bands.size() / 2);
}

TEST_F(DamagedTreeTest, APowerCutWhileALogBandIsTakenOutLeavesASuperblock) {
  constexpr std::uint64_t kChanges = 6;  // more than the two records take
  std::uint64_t interrupted = 0;
  for (std::uint64_t n = 1; n <= kChanges; ++n) {
    SCOPED_TRACE(n);
    SetUp();
    const auto superblock = meta::read_superblock(*device);
    ASSERT_TRUE(superblock);
    device->retire(superblock->log_bands.back(), device::BandCondition::kOffline);
    {
      device::FaultyDevice faulty(*device);
      faulty.cut_power_at_change(n);
      const auto store = open_for_repair(faulty, [](const std::string&) {});
      interrupted += store ? 0 : 1;
    }
    const auto now = meta::read_superblock(*device);
    ASSERT_TRUE(now) << describe(now.error());
    EXPECT_EQ(now->uuid, superblock->uuid);
    repair();
  }
  EXPECT_GT(interrupted, 0u);
}

TEST_F(DamagedTreeTest, InterruptedRepairOfTheTreeDoesNotForgetWhatWasLost) {
  fill_some_bands();
  lose_the_tree_and_extents();
  const auto damaged = copy_of(*device);
  const auto whole = repair_in_pieces(*device);
  ASSERT_TRUE(whole) << describe(whole.error());
  ASSERT_GT(whole->salvaged_blocks, 0u);
  const auto expected = Readable::of(*device);
  bool interrupted = true;
  for (std::uint64_t n = 1; interrupted; n += rounds_of_build(1, 7)) {
    SCOPED_TRACE(n);
    device = copy_of(*damaged);
    {
      device::FaultyDevice faulty(*device);
      faulty.cut_power_at_change(n);
      interrupted = !repair_in_pieces(faulty);
    }
    repair();
    EXPECT_TRUE(Readable::of(*device) == expected);
    ASSERT_LT(n, 1000u);
  }
}

TEST_F(DamagedTreeTest, LostSuperblockIsRebuilt) {
  for (std::uint32_t band = 0; band < 2; ++band) {
    for (std::uint32_t rba = 0; rba < *device->write_pointer(BandId{band}); ++rba) {
      device->flip({BandId{band}, rba}, 5000);
    }
  }
  EXPECT_FALSE(Volume::mount(*device, {.background = false}));
  EXPECT_FALSE(repair().empty());
  EXPECT_EQ(lost_files(), 0u);
  EXPECT_EQ(repair(), Strings{});
}

TEST_F(DamagedTreeTest, SuperblocksThatAreOlderThanTheLogAreRebuilt) {
  FixedClock clock;
  AlignedBuffer old(kBlockBytes);
  device->peek({BandId{0}, *device->write_pointer(BandId{0}) - 1}, old.span());
  for (int session = 0; session < 3; ++session) {
    const auto volume = Volume::mount(*device, {.background = false}, clock);
    ASSERT_TRUE(volume);
    ASSERT_TRUE((*volume)->make_directory(kRootInode, "d" + std::to_string(session), 0755, {}));
    ASSERT_TRUE((*volume)->unmount());
  }
  // A session begins with a reset of both bands: only damage brings an old record back.
  for (std::uint32_t band = 0; band < 2; ++band) {
    const std::uint32_t end = *device->write_pointer(BandId{band});
    ASSERT_GT(end, 1u);
    for (std::uint32_t rba = 0; rba < end; ++rba) device->poke({BandId{band}, rba}, old.span());
  }
  EXPECT_FALSE(Volume::mount(*device, {.background = false}));
  EXPECT_FALSE(repair().empty());
  EXPECT_EQ(lost_files(), 0u);
}

TEST_F(DamagedTreeTest, DeviceWithoutAFilesystemIsLeftAlone) {
  const auto empty = device::MemoryDevice::uniform(24, 64);
  const auto store = open_for_repair(*empty, [](const std::string&) {});
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error(), Errc::kNoFilesystem);
  EXPECT_EQ(*empty->write_pointer(BandId{0}), 0u);
}

// Without write pointers the log needs one band more, which the repair takes from the volume.
TEST(RepairOfTheLogTest, LogThatLacksABandTakesOneWithoutData) {
  const auto device = device::MemoryDevice::uniform(20, 64, {.keeps_write_pointers = false});
  FixedClock clock;
  ASSERT_TRUE(mkfs::make_filesystem(*device, {.uuid = sample_uuid()}, clock));
  {
    const auto volume = Volume::mount(*device, {.background = false}, clock);
    const auto fill = [&](const char* name, std::uint64_t bytes_at_most) {
      const auto file = (*volume)->create(kRootInode, name, 0644, {});
      const std::vector<std::byte> bytes(kBlockBytes, std::byte{7});
      const InodeNo inode = file->attributes.inode;
      std::uint64_t at = 0;
      while (at < bytes_at_most && (*volume)->write(inode, at, bytes)) at += kBlockBytes;
      (*volume)->release(file->file);
      EXPECT_TRUE((*volume)->sync());
      (*volume)->forget(inode, 1);
    };
    fill("first", 128 * kBlockBytes);
    fill("rest", UINT64_MAX);
    EXPECT_TRUE((*volume)->unlink(kRootInode, "first"));
    (*volume)->tick();
    ASSERT_TRUE((*volume)->unmount());
  }
  const auto before = Readable::of(*device);
  // Of the free bands only low ones are left, which are the last that the repair tries.
  std::size_t left = 0;
  const auto log = meta::read_superblock(*device)->log_bands;
  for (std::uint32_t i = log.front().value; i < device->geometry().band_count(); ++i) {
    const bool is_log = std::ranges::count(log, BandId{i}) > 0;
    if (device->write_pointer(BandId{i}) == 0u) {
      device->retire(BandId{i}, device::BandCondition::kOffline);
    } else if (is_log) {
      ++left;
    }
  }
  ASSERT_LT(left, meta::min_log_bands(device->capabilities()));
  const auto store = *open_for_repair(*device, [](const std::string&) {});
  EXPECT_GT(store->log_bands().size(), left);
  ASSERT_TRUE(store->close());
  EXPECT_EQ(Readable::of(*device), before);
}

}  // namespace
}  // namespace lazyfs::fsck
