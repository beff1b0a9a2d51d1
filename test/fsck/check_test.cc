#include "fsck/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "device/faulty.h"
#include "fsck/repair.h"
#include "test/fsck/band_corruptions.h"
#include "test/fsck/corruptions.h"
#include "test/fsck/counting_store.h"
#include "test/meta/forwarding_store.h"

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
  EXPECT_EQ(volume.report.nodes, volume.store->stats().jmap_entries);
  EXPECT_GT(volume.report.nodes, 0u);
  const meta::Key last{~std::uint64_t{0}, 255, meta::kMaxOffset};
  const auto items = volume.store->scan({0, 0, 0}, last, 1000);
  ASSERT_TRUE(items);
  EXPECT_EQ(volume.report.items, items->size());
}

TEST(CheckTest, VolumeWithoutWritePointersHasNoProblems) {
  SampleVolume volume({.keeps_write_pointers = false});
  ASSERT_TRUE(volume.store->close());
  volume.store.reset();
  volume.device->forget_write_pointers();
  volume.open();
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_EQ(volume.report.unaccounted_blocks, 0u);
}

TEST(CheckTest, NamesThatOtherInodesHaveTooAreNoProblem) {
  SampleVolume volume;
  volume.put_entry(3, {InodeNo{5}, 2, 10, "sym"});
  volume.change_inode(5, [](InodeRecord& r) { r.links = 2; });
  volume.change_inode(3, [](InodeRecord& r) {
    r.entries = 2;
    r.next_cookie = 3;
  });
  volume.put(key_of(InodeNo{4}, Kind::kXattrName, 1), encode(XattrRecord{0, "user.empty"}));
  volume.change_inode(4, [](InodeRecord& r) { r.xattrs = 1; });
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{});
}

TEST(CheckTest, ImmutableFilesAndDirectoriesAreNoProblem) {
  SampleVolume volume;
  volume.change_inode(2, [](InodeRecord& r) { r.flags = kAppendOnly; });
  volume.change_inode(3, [](InodeRecord& r) { r.flags = kImmutable; });
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{});
}

TEST(CheckTest, InlineDataOfABlockBetweenExtentsIsNoProblem) {
  SampleVolume volume;
  volume.put_text(inline_key(InodeNo{6}, 3), "between");
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{});
}

// Its last blocks are dead.
TEST(CheckTest, BandThatIsWrittenToItsEndIsNoProblem) {
  SampleVolume volume;
  volume.append(kB1, 51);
  volume.put(key_of(kB1, Kind::kAppendRecord, 13), encode(AppendRecord{InodeNo{6}, 20, 51, 0}));
  volume.put(key_of(kB1, Kind::kDeleteRecord, 13),
             encode(DeleteRecord{InodeNo{6}, 20, 13, 51, 13}));
  volume.change_summary(kB1, [](BandSummaryRecord& s) {
    s = {.appended = 64, .live = 8, .append_records = 4, .delete_records = 2};
  });
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{});
  EXPECT_EQ(volume.report.dead_blocks, 57u);
}

TEST(CheckTest, BlocksOfAnUnconfirmedExtentAreLive) {
  SampleVolume volume;
  volume.change_extent(6, 4, [](ExtentRecord& extent) { extent.append_record = 1; });
  volume.commit();
  EXPECT_EQ(volume.problems().size(), 1u);
  EXPECT_EQ(volume.report.live_blocks, 17u);
}

// As a defect might have it: the metadata log claims a band that the device lacks, and one of the
// superblocks.
TEST(CheckTest, BandsWithTwoUsesAndNoneAreNamed) {
  class OtherLogBands final : public meta::ForwardingStore {
   public:
    using ForwardingStore::ForwardingStore;
    std::vector<BandId> log_bands() const override { return {BandId{0}, BandId{24}}; }
  };
  SampleVolume volume;
  OtherLogBands store(*volume.store);
  Strings found;
  ASSERT_TRUE(check(store, *volume.device, {},
                    [&](const std::string& text) { found.push_back(text); }));
  ASSERT_GE(found.size(), 2u);
  EXPECT_EQ(found[0], "Band 0 holds metadata, but it has another use already.");
  EXPECT_EQ(found[1], "Band 24 holds metadata, but the device has no such band.");
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
  volume.change_summary(kB3, [](BandSummaryRecord& s) { s.live = 3; });  // of a later band
  volume.commit();
  EXPECT_EQ(volume.problems(),
            Strings{"Band 5: the summary counts 3 live blocks, but there are 4."});
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
  for (const BandId band : volume.store->log_bands()) {
    volume.put(key_of(kVolumeOwner, Kind::kBandSummary, band.value),
               encode(BandSummaryRecord{1, 0, 1, 1}));
    volume.put(key_of(band, Kind::kAppendRecord), encode(AppendRecord{InodeNo{0}, 0, 1, 0}));
  }
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

TEST(CheckTest, BadSharedBlockIsNotNamedByAFileThatRefersToOthers) {
  SampleVolume volume;
  volume.device->flip({kB3, 2}, 77);
  const Strings problems = volume.problems({.data = true});
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_TRUE(problems.front().starts_with("Inode 8 (/left), byte 8192: the block (band 5, block"));
}

TEST(CheckTest, BadSharedBlockThatNoFileRefersToIsNamed) {
  SampleVolume volume;
  volume.change_reference(8, 0, [](ReferenceRecord& r) { r.count = 3; });
  volume.commit();
  volume.device->flip({kB3, 3}, 77);
  EXPECT_TRUE(volume.problems({.data = true}).back().starts_with(
      "Inode 10 (without a name), byte 12288: the block (band 5, block 3) cannot be read"));
}

// Of an extent that cannot be read as a whole each block is tried.
TEST(CheckTest, EachBlockThatTheDeviceCannotReadIsNamed) {
  SampleVolume volume;
  volume.device->flip({kB1, 6}, 77);
  device::FaultyDevice faulty(*volume.device);
  faulty.fail_when([](const device::CallInfo& call) -> std::optional<device::Fault> {
    const bool has_it = call.at.band == kB1 && call.at.rba <= 5 && 5 < call.at.rba + call.blocks;
    if (call.call != device::Call::kRead || !has_it) return std::nullopt;
    return device::Fault{};
  });
  Strings found;
  ASSERT_TRUE(check(*volume.store, faulty, {.data = true},
                    [&](const std::string& text) { found.push_back(text); }));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].starts_with("Inode 6 (/big), byte 20480: the block (band 2, block 5)"));
  EXPECT_NE(found[0].find(describe(Errc::kDeviceRead)), std::string::npos) << found[0];
  EXPECT_TRUE(found[1].starts_with("Inode 6 (/big), byte 24576: the block (band 2, block 6)"));
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
  volume.put_share_count(10, 0, 2, 2);
  volume.put_share_count(10, 2, 3, 1);  // one block more than there is
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
  volume.put_directory(18, 19, {{InodeNo{19}, 1, 4, "a"}});
  volume.put_directory(19, 18, {{InodeNo{18}, 1, 4, "b"}});
  volume.put(key_of(kVolumeOwner, Kind::kCounters), encode(CounterRecord{20, 0, 0}));
  volume.commit();
  EXPECT_EQ(volume.problems(),
            Strings{"Directory 18 lies in itself: its names never lead to the root."});
}

// The walk from directory 18 meets the second one first.
TEST(CheckTest, EachOfTwoCyclesIsNamedOnceAndCut) {
  SampleVolume volume;
  volume.put_directory(18, 21, {});
  volume.put_directory(19, 19, {{InodeNo{19}, 1, 4, "self"}});
  volume.put_directory(21, 21, {{InodeNo{18}, 1, 4, "below"}, {InodeNo{21}, 2, 4, "self"}});
  volume.put(key_of(kVolumeOwner, Kind::kCounters), encode(CounterRecord{22, 0, 0}));
  volume.commit();
  EXPECT_EQ(volume.problems(),
            (Strings{"Directory 21 lies in itself: its names never lead to the root.",
                     "Directory 19 lies in itself: its names never lead to the root."}));
  FixedClock clock;
  EXPECT_TRUE(repair(*volume.store, *volume.device, clock, [](const std::string&) {}).result);
  EXPECT_EQ(volume.problems(), Strings{});
}

// The directory's first name would lead to the directory itself.
TEST(CheckTest, DirectoryWithASecondNameInItselfIsNamedOnce) {
  SampleVolume volume;
  volume.erase_entry(1, "dir", 2);
  volume.put_entry(1, {InodeNo{11}, 2, 4, "home"});
  volume.put_directory(11, 1, {{InodeNo{3}, 1, 4, "dir"}});
  volume.put_directory(3, 11, {{InodeNo{4}, 1, 8, "inner"}, {InodeNo{3}, 2, 4, "loop"}});
  volume.put(key_of(kVolumeOwner, Kind::kCounters),
             encode(CounterRecord{.next_inode = 12, .inodes = 10}));
  volume.commit();
  EXPECT_EQ(volume.problems(), Strings{"Directory 3 has 2 names, in directories 3 and 11."});
}

TEST(CheckTest, EachNameOfAnotherTypeIsOneProblem) {
  SampleVolume volume;
  volume.put_entry(1, {InodeNo{2}, 1, 10, "file"});
  volume.commit();
  EXPECT_EQ(volume.problems().size(), 1u);
  volume.put_entry(1, {InodeNo{2}, 6, 10, "again"});
  volume.commit();
  EXPECT_EQ(volume.problems().size(), 2u);
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
  const Strings problems = volume.problems();
  EXPECT_FALSE(volume.report.complete);
  EXPECT_EQ(problems.back(),
            "Link counts, names and shared blocks were not compared, because not all metadata can "
            "be read.");
}

}  // namespace
}  // namespace lazyfs::fsck
