#include "fsck/repair.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "test/fsck/band_corruptions.h"
#include "test/fsck/repaired.h"
#include "test/fsck/corruptions.h"

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
            Strings{"Band 3: the summary counts 1 delete records, but there are 0."});
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
