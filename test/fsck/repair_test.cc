#include "fsck/repair.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "device/faulty.h"
#include "test/fsck/band_corruptions.h"
#include "test/fsck/node_images.h"
#include "test/fsck/repaired.h"
#include "test/fsck/corruptions.h"
#include "test/support/rounds.h"
#include "meta/log/log_layout.h"
#include "meta/tree/node_page.h"
#include "meta/log/superblock.h"

namespace lazyfs::fsck {
namespace {

// Opens the volume as fsck does, tree and all.
Repaired repair_all(SampleVolume& volume) {
  Strings changes;
  auto store =
      open_for_repair(*volume.device, [&](const std::string& text) { changes.push_back(text); });
  EXPECT_TRUE(store) << describe(store.error());
  if (!store) return {};
  volume.store = std::move(*store);
  Repaired result = repair(volume);
  result.changes.insert(result.changes.begin(), changes.begin(), changes.end());
  return result;
}

class RepairCorruptionTest : public testing::TestWithParam<Corruption> {};

TEST_P(RepairCorruptionTest, IsRepairedAndNothingIsLost) {
  SampleVolume volume;
  GetParam().corrupt(volume);
  volume.commit();
  const auto before = readable(volume);
  const Repaired first = repair(volume);
  Strings left = volume.problems();
  EXPECT_EQ(left, Strings{}) << testing::PrintToString(first.changes);
  const Repaired second = repair(volume);
  EXPECT_EQ(second.changes, Strings{});
  const auto after = readable(volume);
  for (const auto& [inode, contents] : before) {
    ASSERT_TRUE(after.contains(inode)) << inode << testing::PrintToString(first.changes);
    EXPECT_TRUE(after.at(inode) == contents) << inode << testing::PrintToString(first.changes);
  }
}

std::string name_of(const testing::TestParamInfo<Corruption>& info) { return name_of_case(info); }
INSTANTIATE_TEST_SUITE_P(Names, RepairCorruptionTest, testing::ValuesIn(kNames), name_of);
INSTANTIATE_TEST_SUITE_P(Inodes, RepairCorruptionTest, testing::ValuesIn(kInodes), name_of);
INSTANTIATE_TEST_SUITE_P(Extents, RepairCorruptionTest, testing::ValuesIn(kExtents), name_of);
INSTANTIATE_TEST_SUITE_P(SharedExtents, RepairCorruptionTest, testing::ValuesIn(kSharedExtents),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Bands, RepairCorruptionTest, testing::ValuesIn(kBands), name_of);

TEST(RepairTest, CleanVolumeStaysAsItIs) {
  SampleVolume volume;
  EXPECT_EQ(repair(volume).changes, Strings{});
}

TEST(RepairTest, NamelessInodesAreInLostAndFound) {
  SampleVolume volume;
  volume.erase_entry(1, "sym", 4);
  volume.erase_entry(1, "dir", 2);
  volume.commit();
  const Repaired repaired = repair(volume);
  EXPECT_EQ(repaired.report.found_inodes, 2u);
  EXPECT_EQ(volume.problems(), Strings{});
  const auto contents = readable(volume);
  EXPECT_EQ(contents.at(5), std::string(1500, 's'));
  EXPECT_EQ(contents.at(4).size(), 3 * kBlockBytes);  // inside the directory
}

TEST(RepairTest, OfADirectorysNamesTheOneInItsParentStays) {
  SampleVolume volume;
  volume.put_entry(3, {InodeNo{3}, 1, 4, "loop"});
  volume.commit();
  EXPECT_EQ(repair(volume).report.found_inodes, 0u);
  EXPECT_EQ(volume.problems(), Strings{});
  const auto left = decode_dentries(volume.value_of(volume.name_key(1, "dir")));
  ASSERT_TRUE(left);
  EXPECT_EQ(left->front().inode, InodeNo{3});
}

TEST(RepairTest, OfADirectorysNamesInItsParentOneStays) {
  SampleVolume volume;
  volume.put_entry(1, {InodeNo{3}, 3, 4, "second"});
  volume.commit();
  EXPECT_EQ(repair(volume).report.found_inodes, 0u);
  EXPECT_EQ(volume.problems(), Strings{});
  const auto is_left = [&](const char* name) {
    const auto item = volume.store->get(volume.name_key(1, name));
    return item && *item;
  };
  EXPECT_NE(is_left("dir"), is_left("second"));
}

TEST(RepairTest, NameOfLostAndFoundThatIsTakenMoves) {
  SampleVolume volume;
  volume.erase_entry(1, "sym", 4);
  volume.put_entry(1, {InodeNo{6}, 4, 8, "lost+found"});
  volume.commit();
  repair(volume);
  EXPECT_EQ(volume.problems(), Strings{});
  const auto home = decode_dentries(volume.value_of(volume.name_key(1, "lost+found")));
  ASSERT_TRUE(home);
  EXPECT_EQ(home->front().type, S_IFDIR >> 12);
  EXPECT_TRUE(decode_dentries(volume.value_of(volume.name_key(1, "lost+found.1"))));
}

// Another directory has the name that one repair action has moved.
TEST(RepairTest, NameUnderAWrongHashIsMovedInItsDirectoryAlone) {
  SampleVolume volume;
  const DentryRecord entry{InodeNo{4}, 9, 8, "inner"};
  volume.put(key_of(kRoot, Kind::kDentryName, 1), encode(entry));
  volume.put(key_of(kRoot, Kind::kDentrySeq, 9), encode(entry));
  volume.change_inode(1, [](InodeRecord& r) {
    r.entries = 8;
    r.next_cookie = 10;
  });
  volume.change_inode(4, [](InodeRecord& r) { r.links = 2; });
  volume.commit();
  repair(volume);
  EXPECT_EQ(volume.problems(), Strings{});
  EXPECT_EQ(decode_inode(volume.value_of(key_of(InodeNo{4}, Kind::kInode)))->links, 2u);
}

// The highest number is in use, and the lowest belongs to a file without a name.
TEST(RepairTest, LostAndFoundGetsNoNumberInUse) {
  SampleVolume volume;
  const auto before = readable(volume);
  volume.erase_entry(1, "file", 1);
  volume.erase_entry(1, "again", 6);
  InodeRecord last;
  last.mode = S_IFREG | 0644;
  volume.put(key_of(InodeNo{kMaxInode}, Kind::kInode), encode(last));
  volume.commit();
  EXPECT_EQ(repair(volume).report.found_inodes, 2u);
  EXPECT_EQ(volume.problems(), Strings{});
  EXPECT_EQ(readable(volume).at(2), before.at(2));
}

// The band may come back: neither its logs nor what refers to it change.
TEST(RepairTest, OfflineBandStaysAsItIs) {
  SampleVolume volume;
  volume.change_summary(kB2, [](BandSummaryRecord& s) { s.delete_records = 1; });
  volume.commit();
  volume.device->retire(kB2, device::BandCondition::kOffline);
  volume.device->place_write_pointer(kB2, 0);  // an offline band may have lost it
  const Strings problems = volume.problems();
  EXPECT_EQ(problems,
            (Strings{"Band 3: 5 blocks are appended, but the write pointer stands at 0.",
                     "Band 3: the summary counts 1 delete records, but there are 0."}));
  const Repaired repaired = repair(volume);
  EXPECT_EQ(repaired.changes, Strings{});
  EXPECT_EQ(repaired.report.rebuilt_bands, 0u);
  EXPECT_EQ(volume.problems(), problems);
}

// A damaged summary does not make more of the band than it has.
TEST(RepairTest, OfflineBandHasNoBlocksPastItsEnd) {
  SampleVolume volume;
  volume.change_summary(kB2, [](BandSummaryRecord& s) { s.appended = 100; });
  volume.change_extent(4, 0, [](ExtentRecord& extent) { extent.at.rba = 64; });
  volume.commit();
  volume.device->retire(kB2, device::BandCondition::kOffline);
  EXPECT_EQ(repair(volume).report.lost_blocks, 3u);
}

// Without write pointers the log needs one band more, which the repair takes from the volume.
TEST(RepairTest, LogThatLacksABandTakesOneWithoutData) {
  const auto device = device::MemoryDevice::uniform(20, 64, {.keeps_write_pointers = false});
  FixedClock clock;
  ASSERT_TRUE(mkfs::make_filesystem(*device, {.uuid = sample_uuid()}, clock));
  {
    const auto volume = Volume::mount(*device, {.background = false}, clock);
    const auto fill = [&](const char* name, std::uint64_t bytes_at_most) {
      const auto file = (*volume)->create(kRootInode, name, 0644, {});
      const std::vector<std::byte> bytes(kB, std::byte{7});
      const InodeNo inode = file->attributes.inode;
      std::uint64_t at = 0;
      while (at < bytes_at_most && (*volume)->write(inode, at, bytes)) at += kB;
      (*volume)->release(file->file);
      EXPECT_TRUE((*volume)->sync());
      (*volume)->forget(inode, 1);
    };
    fill("first", 128 * kB);
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

TEST(RepairTest, RemovedDirectoryThatIsStillOpenStaysAsItIs) {
  SampleVolume volume;
  InodeRecord directory;
  directory.mode = S_IFDIR | 0755;
  directory.parent = kRootInode;
  volume.put(key_of(InodeNo{11}, Kind::kInode), encode(directory));
  volume.put(key_of(kVolumeOwner, Kind::kOrphan, 11),
             encode(OrphanRecord{OrphanRecord::Work::kDelete}));
  volume.put(key_of(kVolumeOwner, Kind::kCounters),
             encode(CounterRecord{.next_inode = 12, .inodes = 10}));
  volume.commit();
  EXPECT_EQ(repair(volume).changes, Strings{});
  EXPECT_EQ(volume.problems(), Strings{});
}

// A repair was cut off, and the next one finds more damage.
TEST(RepairTest, LostRangesOfARepairStayBesideThoseOfTheNext) {
  SampleVolume volume;
  for (const std::uint64_t inode : {4, 6}) {
    ASSERT_TRUE(note_lost_ranges(*volume.store, {all_of(InodeNo{inode})}));
  }
  const auto noted = volume.store->scan(
      key_of(kVolumeOwner, Kind::kLostRange),
      key_of(kVolumeOwner, Kind::kLostRange, meta::kMaxOffset), 10);
  ASSERT_TRUE(noted);
  EXPECT_EQ(noted->size(), 2u);
}

TEST(RepairTest, RebuiltBandsAreCounted) {
  SampleVolume volume;
  volume.erase(key_of(kB1, Kind::kAppendRecord, 8));
  volume.change_summary(kB3, [](BandSummaryRecord& s) { s.live = 3; });
  volume.commit();
  const Repaired repaired = repair(volume);
  EXPECT_EQ(repaired.report.rebuilt_bands, 2u);
  const char sentence[] =
      "Band 2: its append log is rebuilt: 13 blocks, 8 of them live, in 5 records.";
  EXPECT_EQ(std::ranges::count(repaired.changes, sentence), 1)
      << testing::PrintToString(repaired.changes);
}

TEST(RepairTest, LossesOfEachInodeAreCounted) {
  SampleVolume volume;
  for (const std::uint64_t block : {0, 8}) {
    volume.change_extent(6, block, [](ExtentRecord& extent) { extent.at.band = BandId{24}; });
  }
  volume.change_extent(4, 0, [](ExtentRecord& extent) { extent.at.band = BandId{24}; });
  volume.commit();
  const RepairReport report = repair(volume).report;
  EXPECT_EQ(report.lost_blocks, 7u);
  EXPECT_EQ(report.losses_counted, 2u);
  ASSERT_EQ(report.losses.size(), 2u);
  EXPECT_EQ(report.losses[0].path, "/dir/inner");
  EXPECT_EQ(report.losses[0].blocks, 3u);
  EXPECT_EQ(report.losses[1].path, "/big");
  EXPECT_EQ(report.losses[1].blocks, 4u);
}

// An extent that a lost node held is found again by the append log, and checked before it counts.
TEST(RepairTest, LostExtentsAreFoundByTheAppendLog) {
  SampleVolume volume;
  const auto before = readable(volume);
  volume.erase(key_of(InodeNo{6}, Kind::kExtent, 0));
  volume.erase(key_of(InodeNo{6}, Kind::kExtent, 4));
  volume.commit();
  const Repaired repaired =
      repair(volume, {{key_of(InodeNo{6}, Kind::kExtent), key_of(InodeNo{6}, Kind::kExtent, 5)}});
  EXPECT_EQ(repaired.report.salvaged_blocks, 7u);  // block 3 died
  EXPECT_EQ(repaired.report.lost_blocks, 0u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_TRUE(readable(volume) == before);
}

// The leaf is lost from the second extent of an append on.
TEST(RepairTest, LaterExtentsOfAnAppendAreFoundByTheAppendLog) {
  SampleVolume volume;
  const auto before = readable(volume);
  volume.erase(key_of(InodeNo{6}, Kind::kExtent, 4));
  volume.commit();
  const Repaired repaired = repair(
      volume, {{key_of(InodeNo{6}, Kind::kExtent, 1), key_of(InodeNo{6}, Kind::kExtent, 5)}});
  EXPECT_EQ(repaired.report.salvaged_blocks, 4u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_TRUE(readable(volume) == before);
}

// Block 3 died with block 2, whose delete record is lost with the extents.
TEST(RepairTest, BlocksWhoseDeleteRecordMayBeLostDoNotComeBack) {
  SampleVolume volume;
  volume.erase(key_of(InodeNo{6}, Kind::kExtent, 0));
  volume.erase(key_of(InodeNo{6}, Kind::kExtent, 4));
  volume.erase(key_of(kB1, Kind::kDeleteRecord, 3));
  volume.commit();
  const Repaired repaired =
      repair(volume, {{key_of(InodeNo{6}, Kind::kExtent), key_of(InodeNo{6}, Kind::kExtent, 5)},
                      {key_of(kB1, Kind::kDeleteRecord, 2), key_of(kB1, Kind::kDeleteRecord, 3)}});
  EXPECT_EQ(repaired.report.salvaged_blocks, 2u);
  EXPECT_EQ(volume.problems(), Strings{});
}

TEST(RepairTest, BlocksThatDiedDoNotComeBack) {
  SampleVolume volume;
  volume.erase(key_of(InodeNo{6}, Kind::kExtent, 0));
  volume.commit();
  const Repaired repaired = repair(volume);  // no node was lost: the extent was deleted
  EXPECT_EQ(repaired.report.salvaged_blocks, 0u);
  EXPECT_EQ(volume.problems(), Strings{});
}

TEST(RepairTest, LostFileIsRebuiltFromItsBlocks) {
  SampleVolume volume;
  const auto before = readable(volume);
  volume.erase(key_of(InodeNo{4}, Kind::kInode));
  volume.erase(key_of(InodeNo{4}, Kind::kExtent));
  volume.commit();
  repair(volume, {{key_of(InodeNo{4}, Kind::kInode), key_of(InodeNo{5}, Kind::kInode)}});
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_EQ(readable(volume).at(4), before.at(4));
}

// As hardware or a fault may leave it: inode 4 has the blocks of inode 6's first extent too.
TEST(RepairTest, BlocksThatTwoFilesCanReadAreCopied) {
  SampleVolume volume;
  const ExtentRecord shared = *decode_extent(volume.value_of(key_of(InodeNo{6}, Kind::kExtent)));
  volume.put(key_of(InodeNo{4}, Kind::kExtent), encode(shared));
  volume.commit();
  const auto before = readable(volume);
  ASSERT_EQ(before.at(4), before.at(6).substr(0, 3 * kBlockBytes));
  const Repaired repaired = repair(volume);
  EXPECT_EQ(repaired.report.copied_blocks, 3u);
  EXPECT_EQ(repaired.report.lost_blocks, 0u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_EQ(readable(volume), before);
  EXPECT_EQ(repair(volume).changes, Strings{});
}

TEST(RepairTest, OfBlocksThatTwoFilesHaveOnlyReadableOnesAreCopied) {
  SampleVolume volume;
  ExtentRecord shared = *decode_extent(volume.value_of(key_of(InodeNo{6}, Kind::kExtent)));
  shared.crcs[1] ^= 1;
  volume.put(key_of(InodeNo{4}, Kind::kExtent), encode(shared));
  volume.commit();
  const auto before = readable(volume);
  ASSERT_FALSE(before.contains(4));
  const Repaired repaired = repair(volume);
  EXPECT_EQ(repaired.report.copied_blocks, 2u);
  EXPECT_EQ(repaired.report.lost_blocks, 1u);
  ASSERT_EQ(repaired.report.losses.size(), 1u);
  EXPECT_EQ(repaired.report.losses.front().path, "/dir/inner");
  EXPECT_EQ(repaired.report.losses.front().blocks, 1u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  const auto after = readable(volume);
  EXPECT_EQ(after.at(6), before.at(6));
  EXPECT_EQ(after.at(4).substr(0, kBlockBytes), before.at(6).substr(0, kBlockBytes));
  EXPECT_EQ(after.at(4).substr(kBlockBytes, kBlockBytes), std::string(kBlockBytes, '\0'));
}

const meta::KeyRange kLostExtents{key_of(InodeNo{6}, Kind::kExtent),
                                  key_of(InodeNo{6}, Kind::kExtent, 5)};
void lose_extents(SampleVolume& volume) {
  volume.erase(key_of(InodeNo{6}, Kind::kExtent, 0));
  volume.erase(key_of(InodeNo{6}, Kind::kExtent, 4));
  volume.commit();
}

TEST(RepairTest, InterruptedRepairDoesNotForgetWhatWasLost) {
  interrupt_everywhere(lose_extents, kLostExtents,
                       [](const Readable::Contents& before, const Readable::Contents& after) {
                         EXPECT_EQ(after, before);
                       });
}

TEST(RepairTest, UnfinishedRepairIsAProblemUntilAMountForgetsIt) {
  SampleVolume volume;
  lose_extents(volume);
  volume.put(key_of(kVolumeOwner, Kind::kLostRange, 3),
             encode(LostRangeRecord{kLostExtents.first, kLostExtents.end}));
  volume.commit();
  EXPECT_TRUE(std::ranges::any_of(volume.problems(), [](const std::string& problem) {
    return problem.starts_with("A repair has not ended");
  }));
  ASSERT_TRUE(volume.store->close());
  volume.store.reset();
  FixedClock clock;
  const auto mounted = Volume::mount(*volume.device, {.background = false}, clock);
  ASSERT_TRUE(mounted && (*mounted)->unmount());
  volume.open();
  for (const std::string& problem : volume.problems()) {
    EXPECT_FALSE(problem.starts_with("A repair has not ended")) << problem;
  }
  EXPECT_EQ(repair(volume).report.salvaged_blocks, 0u);
}

TEST(RepairTest, WrongContentsAreNotFoundAgain) {
  SampleVolume volume;
  volume.erase(key_of(InodeNo{4}, Kind::kExtent));
  volume.commit();
  volume.device->flip({kB2, 1}, 77);
  const Repaired repaired =
      repair(volume, {{key_of(InodeNo{4}, Kind::kExtent), key_of(InodeNo{5}, Kind::kInode)}});
  EXPECT_EQ(repaired.report.salvaged_blocks, 0u);
  EXPECT_EQ(volume.problems(), Strings{});
}

// ---- The tree and the superblock ----------------------------------------------------------------

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

// ---- Bits that flip anywhere --------------------------------------------------------------------

// Of the sample volume: each block that is written, one bit of it, one at a time.
TEST(RepairTest, AnyFlippedBitIsFoundAndRepairedOrStaysAnError) {
  const SampleVolume clean;
  const auto& geometry = clean.device->geometry();
  for (std::uint32_t band = 0; band < geometry.band_count(); ++band) {
    for (std::uint32_t rba = 0; rba < *clean.device->write_pointer(BandId{band}); ++rba) {
      SCOPED_TRACE(std::to_string(band) + ":" + std::to_string(rba));
      SampleVolume volume;
      const auto all = readable(volume);
      ASSERT_TRUE(volume.store->close());
      volume.store.reset();
      volume.device->flip({BandId{band}, rba}, (band * 7919 + rba * 104729) % (8 * kBlockBytes));
      const auto before = Readable::of(*volume.device);
      for (const auto& [inode, contents] : before) EXPECT_EQ(contents, all.at(inode));
      repair_all(volume);
      EXPECT_EQ(volume.problems(), Strings{});
      const auto after = readable(volume);
      for (const auto& [inode, contents] : before) {
        ASSERT_TRUE(after.contains(inode)) << inode;
        EXPECT_EQ(after.at(inode), contents);
      }
    }
  }
}

}  // namespace
}  // namespace lazyfs::fsck
