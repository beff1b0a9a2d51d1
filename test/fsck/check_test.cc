#include "fsck/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "test/fsck/band_corruptions.h"
#include "test/fsck/corruptions.h"
#include "test/fsck/counting_store.h"

namespace lazyfs::fsck {
namespace {

using Strings = std::vector<std::string>;

class CheckCorruptionTest : public testing::TestWithParam<Corruption> {};

TEST_P(CheckCorruptionTest, IsNamed) {
  SampleVolume volume;
  GetParam().corrupt(volume);
  volume.commit();
  const Strings problems = volume.problems({.data = true});
  EXPECT_TRUE(std::ranges::any_of(problems,
                                  [](const std::string& problem) {
                                    return problem.find(GetParam().finding) != std::string::npos;
                                  }))
      << "expected: " << GetParam().finding << "\nfound: " << testing::PrintToString(problems);
}

INSTANTIATE_TEST_SUITE_P(Names, CheckCorruptionTest, testing::ValuesIn(kNames), name_of_case);
INSTANTIATE_TEST_SUITE_P(Inodes, CheckCorruptionTest, testing::ValuesIn(kInodes), name_of_case);
INSTANTIATE_TEST_SUITE_P(Extents, CheckCorruptionTest, testing::ValuesIn(kExtents), name_of_case);
INSTANTIATE_TEST_SUITE_P(SharedExtents, CheckCorruptionTest, testing::ValuesIn(kSharedExtents),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Bands, CheckCorruptionTest, testing::ValuesIn(kBands), name_of_case);

TEST(CheckTest, CleanVolumeHasNoProblems) {
  SampleVolume volume;
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_TRUE(volume.report.complete);
  EXPECT_EQ(volume.report.inodes, 10u);
  EXPECT_EQ(volume.report.directories, 2u);
  EXPECT_EQ(volume.report.shared_inodes, 1u);
  EXPECT_EQ(volume.report.names, 8u);
  EXPECT_EQ(volume.report.orphans, 1u);
  EXPECT_EQ(volume.report.extents, 6u);
  EXPECT_EQ(volume.report.references, 2u);
  EXPECT_EQ(volume.report.live_blocks, 17u);
  EXPECT_EQ(volume.report.shared_blocks, 4u);
  EXPECT_EQ(volume.report.reference_blocks, 6u);
  EXPECT_EQ(volume.report.dead_blocks, 6u);
  EXPECT_EQ(volume.report.unaccounted_blocks, 0u);
  EXPECT_EQ(volume.report.verified_blocks, 17u);
}

TEST(CheckTest, DataIsReadOnlyWhenAsked) {
  SampleVolume volume;
  EXPECT_EQ(volume.problems(), Strings{});
  EXPECT_EQ(volume.report.verified_blocks, 0u);
}

TEST(CheckTest, BlocksAppendedBeforeACrashAreNoProblem) {
  SampleVolume volume;
  volume.append(kB1, 3);
  volume.append(SampleVolume::kUnused, 2);
  EXPECT_EQ(volume.problems(), Strings{});
  EXPECT_EQ(volume.report.unaccounted_blocks, 5u);
}

// Inode 4 and its blocks are taken out of the sample's band 3, and inode 7.
void empty_second_band(SampleVolume& volume) {
  for (const std::uint64_t inode : {4, 7}) {
    volume.erase(key_of(InodeNo{inode}, Kind::kExtent));
    volume.change_inode(inode, [](InodeRecord& r) { r.size = r.blocks = 0; });
  }
  volume.put(key_of(kB2, Kind::kDeleteRecord, 0), encode(DeleteRecord{InodeNo{4}, 0, 0, 3, 0}));
  volume.put(key_of(kB2, Kind::kDeleteRecord, 3), encode(DeleteRecord{InodeNo{7}, 0, 3, 2, 3}));
  volume.change_summary(kB2, [](BandSummaryRecord& s) {
    s.live = 0;
    s.delete_records = 2;
  });
  volume.commit();
  ASSERT_EQ(volume.problems(), Strings{});
}

TEST(CheckTest, ResetBandWhoseLogsACrashHasKeptIsNoProblem) {
  SampleVolume volume;
  empty_second_band(volume);
  ASSERT_TRUE(volume.device->reset(kB2));
  EXPECT_EQ(volume.problems(), Strings{});
  volume.append(kB2, 2);
  EXPECT_EQ(volume.problems(), Strings{});
  EXPECT_EQ(volume.report.unaccounted_blocks, 2u);
}

TEST(CheckTest, ResetBandWhoseLogsAreErasedInPartIsNoProblem) {
  SampleVolume volume;
  empty_second_band(volume);
  ASSERT_TRUE(volume.device->reset(kB2));
  volume.append(kB2, 7);  // begun again, before any of that was recorded
  for (const meta::Key key :
       {key_of(kB2, Kind::kAppendRecord, 0), key_of(kB2, Kind::kAppendRecord, 3),
        key_of(kB2, Kind::kDeleteRecord, 0)}) {
    volume.erase(key);
    volume.commit();
    EXPECT_EQ(volume.problems(), Strings{});
  }
}

TEST(CheckTest, LogsLeftOfABandThatTheMetadataLogHasTakenAreNoProblem) {
  SampleVolume volume;
  volume.put(key_of(kVolumeOwner, Kind::kBandSummary, volume.log_band.value),
             encode(BandSummaryRecord{1, 0, 1, 1}));
  volume.put(key_of(volume.log_band, Kind::kAppendRecord),
             encode(AppendRecord{InodeNo{0}, 0, 1, 0}));
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{});
}

TEST(CheckTest, BlocksPastTheEndThatAreToBeFreedAreNoProblem) {
  SampleVolume volume;
  volume.change_inode(6, [](InodeRecord& r) { r.size = 0; });
  volume.put(key_of(kVolumeOwner, Kind::kOrphan, 6),
             encode(OrphanRecord{OrphanRecord::Work::kTruncate}));
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{});
}

TEST(CheckTest, RemovedDirectoryThatIsStillOpenIsNoProblem) {
  SampleVolume volume;
  volume.erase_entry(3, "inner", 1);
  volume.erase_entry(1, "dir", 2);
  volume.put_entry(1, {InodeNo{4}, 9, 8, "inner"});
  volume.change_inode(1, [](InodeRecord& r) {
    r.links = 2;
    r.next_cookie = 10;
  });
  volume.change_inode(3, [](InodeRecord& r) { r.links = r.entries = 0; });
  volume.put(key_of(kVolumeOwner, Kind::kOrphan, 3),
             encode(OrphanRecord{OrphanRecord::Work::kDelete}));
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{});
}

TEST(CheckTest, InodeThatIsDeletedInPartIsNoProblem) {
  SampleVolume volume;
  volume.erase_entry(1, "big", 5);
  volume.change_inode(1, [](InodeRecord& r) { r.entries = 6; });
  volume.put(key_of(kVolumeOwner, Kind::kOrphan, 6),
             encode(OrphanRecord{OrphanRecord::Work::kDelete}));
  volume.erase(key_of(InodeNo{6}, Kind::kXattrName, 1));
  volume.change_inode(6, [](InodeRecord& r) {
    r.links = 0;
    r.blocks += 5;
  });
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{});
}

TEST(CheckTest, InodeThatIsDeletedMapsNoMoreBlocksThanItCounts) {
  SampleVolume volume;
  volume.change_inode(7, [](InodeRecord& r) { r.blocks = 1; });
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{"Inode 7 counts 1 blocks, but its extents map 2."});
}

TEST(CheckTest, BadSharedBlockIsNamedByEachFileThatRefersToIt) {
  SampleVolume volume;
  volume.device->flip({kB3, 1}, 77);
  EXPECT_EQ(volume.problems({.data = true}),
            (Strings{"Inode 8 (/left), byte 4096: the block (band 5, block 1) cannot be read: file "
                     "data fails its checksum.",
                     "Inode 9 (/right), byte 8192: the block (band 5, block 1) cannot be read: "
                     "file data fails its checksum."}));
  EXPECT_EQ(volume.report.verified_blocks, 17u);
}

TEST(CheckTest, FileThatIsDeletedInPartStillHoldsWhatItRefersTo) {
  SampleVolume volume;
  volume.erase_entry(1, "right", 8);
  volume.change_inode(1, [](InodeRecord& r) { r.entries = 6; });
  volume.change_inode(9, [](InodeRecord& r) { r.links = 0; });
  volume.put(key_of(kVolumeOwner, Kind::kOrphan, 9),
             encode(OrphanRecord{OrphanRecord::Work::kDelete}));
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{});
  volume.erase(key_of(InodeNo{9}, Kind::kExtent, 1));
  volume.put_share_count(10, 0, 2, 1);
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{});
}

// One file may refer to a block twice, and references need not begin where reference counts do.
TEST(CheckTest, ReferencesThatOverlapAreCountedBlockByBlock) {
  SampleVolume volume;
  volume.change_inode(9, [](InodeRecord& r) {
    r.size = 10 * kBlockBytes;
    r.blocks = 6;
  });
  volume.put_reference(9, 3, 10, 1, 3);
  volume.put_reference(9, 6, 10, 1, 1);
  volume.put_share_count(10, 0, 1, 2);
  volume.put_share_count(10, 1, 1, 4);
  volume.put_share_count(10, 2, 2, 2);
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{});
  volume.put_share_count(10, 0, 2, 4);
  volume.erase(key_of(InodeNo{10}, Kind::kReferenceCount, 1));
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{"Shared-extent inode 10: 4 references to its blocks from 0 "
                                       "to 0 "
                                       "are counted, but there are 2."});
}

TEST(CheckTest, OneWrongShareCountIsOneProblem) {
  SampleVolume volume;
  volume.put_share_count(10, 0, 2, 1);
  volume.commit();
  EXPECT_EQ(volume.problems().size(), 1u);
}

TEST(CheckTest, InlineDataPastTheEndOfAFileToBeTruncatedIsNoProblem) {
  SampleVolume volume;
  volume.change_inode(2, [](InodeRecord& r) { r.size = 99; });
  volume.put(key_of(kVolumeOwner, Kind::kOrphan, 2),
             encode(OrphanRecord{OrphanRecord::Work::kTruncate}));
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{});
}

TEST(CheckTest, OneWrongLinkCountIsOneProblem) {
  SampleVolume volume;
  volume.change_inode(2, [](InodeRecord& r) { r.links = 3; });
  volume.commit();
  EXPECT_EQ(volume.problems().size(), 1u);
}

// A cycle that does not contain the directory from which the walk begins.
TEST(CheckTest, CycleAboveADirectoryIsNamedOnce) {
  SampleVolume volume;
  InodeRecord directory;
  directory.mode = S_IFDIR | 0755;
  directory.links = 3;
  directory.entries = 1;
  directory.next_cookie = 2;
  directory.parent = InodeNo{19};
  volume.put(key_of(InodeNo{18}, Kind::kInode), encode(directory));
  directory.parent = InodeNo{18};
  volume.put(key_of(InodeNo{19}, Kind::kInode), encode(directory));
  volume.put_entry(18, {InodeNo{19}, 1, 4, "a"});
  volume.put_entry(19, {InodeNo{18}, 1, 4, "b"});
  volume.put(key_of(kVolumeOwner, Kind::kCounters), encode(CounterRecord{20, 0, 0}));
  volume.commit();
  EXPECT_EQ(volume.problems(),
            Strings{"Directory 18 lies in itself: its names never lead to the root."});
}

// One walk for each name would take hours in a directory of a million wrong names.
TEST(CheckTest, WrongNamesOfADirectoryTakeOneWalkThroughIt) {
  constexpr std::uint64_t kNamesWanted = 400;
  SampleVolume volume;
  for (std::uint64_t i = 0; i < kNamesWanted; ++i) {
    volume.put_entry(1, {InodeNo{1000 + i}, 100 + i, 8, "wrong" + std::to_string(i)});
    if (i % 100 == 0) volume.commit();
  }
  volume.commit();
  CountingStore store(*volume.store);
  std::uint64_t wrong = 0;
  const auto listener = [&](const std::string& text) {
    wrong += text.ends_with("which does not exist.") ? 1 : 0;
  };
  ASSERT_TRUE(check(store, *volume.device, {}, listener));
  EXPECT_EQ(wrong, kNamesWanted);
  EXPECT_LT(store.scanned_items(), 10 * kNamesWanted);
}

// Its name is wrong, and leads nowhere.
TEST(CheckTest, PathThatRunsInACircleIsNone) {
  SampleVolume volume;
  volume.erase_entry(1, "dir", 2);
  volume.put_entry(3, {InodeNo{3}, 1, 4, "loop"});
  volume.commit();
  volume.device->flip({kB2, 1}, 77);  // of /dir/inner
  EXPECT_TRUE(volume.problems({.data = true}).back().starts_with(
      "Inode 4 (without a name), byte 4096: the block (band 3, block 1) cannot be read"));
}

TEST(CheckTest, ManyItemsAreReadInPieces) {
  SampleVolume volume;
  constexpr std::uint64_t kFiles = 600;  // 1800 items
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    InodeRecord file;
    file.mode = S_IFREG | 0644;
    file.links = 1;
    volume.put(key_of(InodeNo{100 + i}, Kind::kInode), encode(file));
    volume.put_entry(1, {InodeNo{100 + i}, 100 + i, 8, "file" + std::to_string(i)});
    volume.commit();
  }
  volume.change_inode(1, [](InodeRecord& r) {
    r.entries += kFiles;
    r.next_cookie = 100 + kFiles;
  });
  volume.put(key_of(kVolumeOwner, Kind::kCounters),
             encode(CounterRecord{.next_inode = 100 + kFiles, .inodes = 9 + kFiles}));
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{});
  EXPECT_EQ(volume.report.inodes, 10 + kFiles);
}

TEST(CheckTest, EveryStageTellsItsProgress) {
  SampleVolume volume;
  std::vector<std::string> stages;
  std::map<std::string, StageProgress> last;
  const auto report = check(
      *volume.store, *volume.device, {.data = true}, [](const std::string&) {},
      [&](std::string_view stage, StageProgress progress) {
        if (stages.empty() || stages.back() != stage) stages.emplace_back(stage);
        last[std::string(stage)] = progress;
      });
  ASSERT_TRUE(report);
  EXPECT_EQ(stages, (Strings{"nodes", "volume", "inodes", "bands", "shared extents", "names",
                             "data"}));
  EXPECT_EQ(last["inodes"].done, report->inodes - report->shared_inodes);
  EXPECT_EQ(last["data"].done, report->verified_blocks);
  for (const char* stage : {"inodes", "names", "data"}) {
    EXPECT_EQ(last[stage].total, last[stage].done) << stage;
  }
  EXPECT_GT(last["nodes"].total, 0u);
}

// The log is truncated under an open store, whose cache has no room for the nodes near the root.
TEST(CheckTest, UnreadableMetadataIsAProblemAndNotTheEnd) {
  SampleVolume volume;
  ASSERT_TRUE(volume.store->close());
  auto opened = meta::Store::open(*volume.device, {.cache_bytes = 1, .background = false});
  ASSERT_TRUE(opened) << describe(opened.error());
  volume.store = std::move(*opened);
  for (const BandId band : volume.store->log_bands()) {
    ASSERT_TRUE(volume.device->set_write_pointer(band, 0));
  }
  EXPECT_FALSE(volume.problems().empty());
  EXPECT_FALSE(volume.report.complete);
}

}  // namespace
}  // namespace lazyfs::fsck
