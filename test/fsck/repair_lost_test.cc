// What a repair finds again of an inode whose own record is lost, and what it must not give it.
#include <gtest/gtest.h>

#include <string>

#include "fsck/lost_keys.h"
#include "test/fsck/repaired.h"
#include "test/support/units.h"

namespace lazyfs::fsck {
namespace {

constexpr InodeNo kBig{6};

void erase_record_and_extents(SampleVolume& volume) {
  volume.erase(key_of(kBig, Kind::kInode));
  for (const std::uint64_t block : {0, 4, 8}) volume.erase(key_of(kBig, Kind::kExtent, block));
}
void lose_big(SampleVolume& volume) {
  erase_record_and_extents(volume);
  for (const std::uint64_t id : {1, 2}) volume.erase(key_of(kBig, Kind::kXattrName, id));
  for (const std::uint64_t piece : {0, 1}) {
    volume.erase(key_of(kBig, Kind::kXattrValue, 1 << 8 | piece));
  }
  volume.commit();
}

// One whose size was lost ends where its last block does.
void expect_big_is_back(const Readable::Contents& before, const Readable::Contents& after) {
  ASSERT_TRUE(after.contains(kBig.value));
  EXPECT_EQ(after.at(kBig.value).size(), 9 * kB);
  EXPECT_TRUE(after.at(kBig.value).starts_with(before.at(kBig.value)));
}

TEST(RepairLostTest, FileOfSeveralAppendsIsRebuilt) {
  SampleVolume volume;
  const auto before = readable(volume);
  lose_big(volume);
  EXPECT_EQ(repair(volume, {all_of(kBig)}).report.salvaged_blocks, 8u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  expect_big_is_back(before, readable(volume));
}

TEST(RepairLostTest, RebuiltFileIsNotLargerThanAFileMayBe) {
  SampleVolume volume;
  volume.put_reference(9, blocks_for(kMaxFileBytes) - 1, 10, 0, 1);
  volume.erase(key_of(InodeNo{9}, Kind::kInode));
  volume.commit();
  repair(volume);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  const auto record = decode_inode(volume.value_of(key_of(InodeNo{9}, Kind::kInode)));
  ASSERT_TRUE(record);
  EXPECT_EQ(record->size, kMaxFileBytes);
}

TEST(RepairLostTest, NamesOfLostInodesAreListedByPath) {
  SampleVolume volume;
  const InodeNo inner{4};
  volume.erase(key_of(inner, Kind::kInode));
  volume.erase(key_of(inner, Kind::kExtent, 0));
  volume.commit();
  const RepairReport report = repair(volume).report;
  ASSERT_EQ(report.losses.size(), 1u);
  EXPECT_EQ(report.losses_counted, 1u);
  EXPECT_EQ(report.losses.front().path, "/dir/inner");
  EXPECT_EQ(report.losses.front().inode, inner);
  EXPECT_EQ(report.losses.front().blocks, 0u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
}

// No later run finds the name if the transaction is durable in spite of the error.
TEST(RepairLostTest, LossesAreListedAlsoWhenTheLastCommitFails) {
  SampleVolume volume;
  volume.erase(key_of(InodeNo{4}, Kind::kInode));
  volume.erase(key_of(InodeNo{4}, Kind::kExtent, 0));
  volume.commit();
  ASSERT_TRUE(volume.store->close());
  volume.store.reset();
  device::FaultyDevice faulty(*volume.device);
  const auto store = *meta::Store::open(faulty, {.background = false});
  faulty.fail_nth(device::Call::kFlush, 1, {Errc::kDeviceFlush});
  FixedClock clock;
  const RepairReport report = fsck::repair(*store, faulty, clock, [](const std::string&) {});
  EXPECT_FALSE(report.result);
  ASSERT_EQ(report.losses_counted, 1u);
  EXPECT_EQ(report.losses.at(0).path, "/dir/inner");
}

TEST(RepairLostTest, SmallFileIsRebuiltFromItsInlineData) {
  SampleVolume volume;
  const auto before = readable(volume);
  volume.erase(key_of(InodeNo{2}, Kind::kInode));
  volume.commit();
  repair(volume, {{key_of(InodeNo{2}, Kind::kInode), key_of(InodeNo{2}, Kind::kInline)}});
  EXPECT_EQ(volume.problems(), Strings{});
  EXPECT_EQ(readable(volume), before);
}

// The next run meets a record that the interrupted one has rebuilt, which says no more of the
// file's size than what was found again by then.
TEST(RepairLostTest, InterruptedRepairStillFindsAllOfALostFile) {
  interrupt_everywhere(lose_big, all_of(kBig), expect_big_is_back);
}

// Two leaves are lost, and the one between them is not: the file's attributes remain.
TEST(RepairLostTest, FileOfWhichOnlyAttributesAreLeftIsRebuilt) {
  SampleVolume volume;
  const auto before = readable(volume);
  erase_record_and_extents(volume);
  volume.commit();
  const Repaired repaired =
      repair(volume, {{key_of(kBig, Kind::kInode), key_of(kBig, Kind::kXattrName, 1)},
                      {key_of(kBig, Kind::kExtent), key_of(InodeNo{7}, Kind::kInode)}});
  EXPECT_EQ(repaired.report.salvaged_blocks, 8u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  expect_big_is_back(before, readable(volume));
}

// Blocks past the end of a file that was being truncated do not become part of it again.
TEST(RepairLostTest, FileThatIsBeingCutOffDoesNotGrow) {
  SampleVolume volume;
  volume.erase(key_of(kBig, Kind::kExtent, 8));
  volume.change_inode(6, [](InodeRecord& r) { r.size = 5 * kB; });
  volume.put(key_of(kVolumeOwner, Kind::kOrphan, 6),
             encode(OrphanRecord{OrphanRecord::Work::kTruncate}));
  volume.commit();
  const auto before = readable(volume);
  repair(volume, {all_of(kBig)});
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_EQ(readable(volume), before);
}

TEST(RepairLostTest, AppendRecordOfBlocksBehindTheLastThatCanBeIsNotBelieved) {
  SampleVolume volume;
  volume.erase(key_of(InodeNo{4}, Kind::kExtent));
  volume.change_append(SampleVolume::kB2, 0,
                       [](AppendRecord& a) { a.file_block = meta::kMaxOffset - 1; });
  volume.commit();
  const Repaired repaired =
      repair(volume, {{key_of(InodeNo{4}, Kind::kExtent), key_of(InodeNo{5}, Kind::kInode)}});
  EXPECT_EQ(repaired.report.salvaged_blocks, 0u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
}

// ---- Appends that are not believed --------------------------------------------------------------

constexpr meta::KeyRange kExtentsOfInner{key_of(InodeNo{4}, Kind::kExtent),
                                         key_of(InodeNo{5}, Kind::kInode)};

// The log of an older append of the file lacks the deaths of its blocks.
TEST(RepairLostTest, AppendThatReachesIntoMappedBlocksIsNotBelieved) {
  SampleVolume volume;
  const auto crcs = volume.append(SampleVolume::kUnused, 3);
  volume.change_extent(4, 0, [&](ExtentRecord& e) { e = {{SampleVolume::kUnused, 0}, 0, crcs}; });
  volume.put(key_of(SampleVolume::kUnused, Kind::kAppendRecord),
             encode(AppendRecord{InodeNo{4}, 0, 3, checksum_of(crcs)}));
  volume.put(key_of(kVolumeOwner, Kind::kBandSummary, SampleVolume::kUnused.value),
             encode(BandSummaryRecord{.appended = 3, .live = 3, .append_records = 1}));
  volume.change_append(SampleVolume::kB2, 0, [](AppendRecord& a) { a.file_block = 1; });
  volume.change_inode(4, [](InodeRecord& r) { r.size = 4 * kB; });
  volume.commit();
  const auto before = readable(volume);
  EXPECT_EQ(repair(volume, {kExtentsOfInner}).report.salvaged_blocks, 0u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_EQ(readable(volume), before);
}

TEST(RepairLostTest, AppendOfBlocksThatAnotherFileHasIsNotBelieved) {
  SampleVolume volume;
  const auto before = readable(volume);
  volume.erase(key_of(InodeNo{4}, Kind::kExtent));
  volume.change_inode(4, [](InodeRecord& r) { r.size = 9 * kB; });
  volume.change_append(SampleVolume::kB3, 0, [](AppendRecord& a) {
    a.inode = InodeNo{4};
    a.file_block = 4;
  });
  volume.commit();
  EXPECT_EQ(repair(volume, {kExtentsOfInner}).report.salvaged_blocks, 3u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_EQ(readable(volume).at(8), before.at(8));
}

TEST(RepairLostTest, AppendOfADirectoryIsNotBelieved) {
  SampleVolume volume;
  volume.erase(key_of(InodeNo{4}, Kind::kExtent));
  volume.change_append(SampleVolume::kB2, 0, [](AppendRecord& a) { a.inode = InodeNo{3}; });
  volume.commit();
  const Repaired repaired =
      repair(volume, {{key_of(InodeNo{3}, Kind::kInode), key_of(InodeNo{5}, Kind::kInode)}});
  EXPECT_EQ(repaired.report.salvaged_blocks, 0u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
}

// Inline data that is newer than blocks is stored together with the deaths of these blocks.
TEST(RepairLostTest, BlocksThatAreRecoveredReplaceInlineData) {
  SampleVolume volume;
  const auto before = readable(volume);
  volume.erase(key_of(InodeNo{4}, Kind::kExtent));
  volume.put_text(key_of(InodeNo{4}, Kind::kInline), "old");
  volume.commit();
  EXPECT_EQ(repair(volume, {kExtentsOfInner}).report.salvaged_blocks, 3u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_EQ(readable(volume), before);
}

// ---- Volumes as mkfs and mounts make them -------------------------------------------------------

// A directory with a file, and no shared extents. Names have a seed of their own.
class MountedLossTest : public testing::Test {
 protected:
  MountedLossTest() {
    EXPECT_TRUE(
        mkfs::make_filesystem(*device, {.uuid = sample_uuid(), .name_seed = 77}, clock));
    const auto volume = Volume::mount(*device, {.background = false}, clock);
    EXPECT_TRUE(volume);
    directory = (*volume)->make_directory(kRootInode, "directory", 0755, {})->inode;
    for (InodeNo* const inode : {&first, &second}) {
      const std::string name = inode == &first ? "first" : "second";
      const auto created = (*volume)->create(directory, name, 0644, {});
      EXPECT_TRUE(created);
      *inode = created->attributes.inode;
      const std::string bytes(3 * kB, name.front());
      EXPECT_TRUE((*volume)->write(*inode, 0, std::as_bytes(std::span(bytes))));
      (*volume)->release(created->file);
    }
    EXPECT_TRUE((*volume)->unmount());
    before = Readable::of(*device);
    EXPECT_EQ(before.size(), 2u);
  }

  // Loses all items of the range, and repairs. The contents of all files must be as before. Returns
  // how many inodes are in /lost+found.
  std::uint64_t lose_and_repair(const meta::KeyRange& lost) {
    const auto store = *meta::Store::open(*device, {.background = false});
    meta::Batch batch;
    const auto items = store->scan(lost.first, *lost.end, 100);
    EXPECT_TRUE(items);
    for (const meta::Item& item : *items) {
      if (item.key < *lost.end) batch.erase(item.key);
    }
    EXPECT_TRUE(store->apply(batch) && note_lost_ranges(*store, {lost}));
    const std::uint64_t found = repair_all(*store).found_inodes;
    EXPECT_TRUE(store->close());
    EXPECT_EQ(Readable::of(*device), before);
    return found;
  }
  // After it nothing is left to repair.
  RepairReport repair_all(meta::Store& store) {
    RepairReport report = fsck::repair(store, *device, clock, [](const std::string&) {});
    EXPECT_TRUE(report.result);
    EXPECT_EQ(problems(store), Strings{});
    return report;
  }
  Strings problems(meta::Store& store) {
    Strings found;
    EXPECT_TRUE(check(store, *device, {.data = true},
                      [&](const std::string& text) { found.push_back(text); }));
    return found;
  }

  std::unique_ptr<device::MemoryDevice> device = device::MemoryDevice::uniform(24, 64);
  FixedClock clock;
  InodeNo directory, first, second;
  Readable::Contents before;
};

TEST_F(MountedLossTest, NamesOfARebuiltDirectoryAreFound) {
  const meta::KeyRange lost{key_of(directory, Kind::kInode),
                            key_of(directory, Kind::kDentryName)};
  EXPECT_EQ(lose_and_repair(lost), 0u);
}

TEST_F(MountedLossTest, LostFileBeforeOthersKeepsItsName) {
  EXPECT_EQ(lose_and_repair(all_of(first)), 0u);
}

// More blocks in a row than one reference count has.
TEST_F(MountedLossTest, LostReferenceCountsOfManyBlocksAreCountedAgain) {
  constexpr std::uint64_t kBlocks = 2 * kMaxExtentBlocks + 1;
  {
    const auto volume = *Volume::mount(*device, {.background = false}, clock);
    const std::vector<std::byte> bytes(kBlocks * kB, std::byte{7});
    ASSERT_TRUE(volume->write(first, 0, bytes));
    ASSERT_TRUE(volume->copy_range(first, 0, second, 0, kBlocks * kB, false));
    ASSERT_TRUE(volume->unmount());
  }
  before = Readable::of(*device);
  ASSERT_EQ(before.at(second.value), before.at(first.value));
  const auto store = *meta::Store::open(*device, {.background = false});
  ASSERT_EQ(problems(*store), Strings{});
  const auto items = store->scan(key_of(InodeNo{second.value + 1}, Kind::kInode),
                                 key_of(InodeNo{kMaxInode}, Kind::kInode), 100);
  ASSERT_TRUE(items);
  meta::Batch batch;
  for (const meta::Item& item : *items) {
    const bool is_count = item.key.kind == static_cast<std::uint8_t>(Kind::kReferenceCount);
    if (is_count) batch.erase(item.key);
  }
  ASSERT_FALSE(batch.empty());
  ASSERT_TRUE(store->apply(batch));
  EXPECT_EQ(repair_all(*store).losses_counted, 0u);
  ASSERT_TRUE(store->close());
  EXPECT_EQ(Readable::of(*device), before);
}

TEST_F(MountedLossTest, ReferenceCountIsRemovedWhereNoInodeIsShared) {
  const auto store = *meta::Store::open(*device, {.background = false});
  meta::Batch batch;
  batch.put(key_of(first, Kind::kReferenceCount), encode(ReferenceCountRecord{1, 1}));
  ASSERT_TRUE(store->apply(batch));
  EXPECT_EQ(problems(*store).size(), 1u);
  EXPECT_EQ(repair_all(*store).losses_counted, 0u);
}

TEST_F(MountedLossTest, ReferenceToNothingIsRemovedWhereNoInodeIsShared) {
  const auto store = *meta::Store::open(*device, {.background = false});
  meta::Batch batch;
  batch.put(key_of(first, Kind::kExtent, 3), encode(ReferenceRecord{InodeNo{99}, 0, 1}));
  auto record = *decode_inode(**store->get(key_of(first, Kind::kInode)));
  record.size += kB;
  record.blocks += 1;
  batch.put(key_of(first, Kind::kInode), encode(record));
  ASSERT_TRUE(store->apply(batch));
  EXPECT_EQ(problems(*store).size(), 1u);
  EXPECT_EQ(repair_all(*store).lost_blocks, 1u);
}

// ---- Numbers of inodes --------------------------------------------------------------------------

// A file is lost, and its number was the highest. The name is left, and leads nowhere: not to what
// the repair makes of blocks that another lost file had shared.
TEST(RepairLostTest, NumberOfALostFileIsNotGivenOutAgain) {
  SampleVolume volume;
  volume.put_entry(1, {InodeNo{11}, 9, 8, "newest"});
  volume.put(key_of(kVolumeOwner, Kind::kCounters), encode(CounterRecord{12, 0, 0}));
  volume.erase(key_of(InodeNo{8}, Kind::kInode));
  volume.erase(key_of(InodeNo{8}, Kind::kExtent));
  volume.commit();
  const Repaired repaired = repair(volume, {all_of(InodeNo{8}), all_of(InodeNo{11})});
  EXPECT_EQ(repaired.report.found_inodes, 1u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  const auto name = volume.store->get(volume.name_key(1, "newest"));
  ASSERT_TRUE(name);
  EXPECT_FALSE(*name);
  const auto after = readable(volume);
  EXPECT_FALSE(after.contains(11));
  EXPECT_TRUE(after.contains(12));
}

// Also where the counters are lost.
TEST(RepairLostTest, NumberOfAnInodeThatIsRecoveredIsNotGivenOutAgain) {
  SampleVolume volume;
  volume.erase(key_of(kVolumeOwner, Kind::kCounters));
  volume.erase(key_of(InodeNo{10}, Kind::kInode));
  volume.erase(key_of(InodeNo{10}, Kind::kExtent));
  for (const std::uint64_t block : {0, 2}) {
    volume.erase(key_of(InodeNo{10}, Kind::kReferenceCount, block));
  }
  volume.commit();
  EXPECT_EQ(repair(volume, {all_of(InodeNo{10})}).report.salvaged_blocks, 4u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
}

// Also where the counters are lost.
TEST(RepairLostTest, NumberThatANameLeadsToIsNotGivenOutAgain) {
  SampleVolume volume;
  volume.put_entry(1, {InodeNo{11}, 9, 8, "newest"});
  volume.erase(key_of(kVolumeOwner, Kind::kCounters));
  volume.erase(key_of(InodeNo{8}, Kind::kInode));
  volume.erase(key_of(InodeNo{8}, Kind::kExtent));
  volume.commit();
  repair(volume, {all_of(InodeNo{8}), all_of(InodeNo{11})});
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_FALSE(readable(volume).contains(11));
}

TEST(RepairLostTest, ValueOfAnAttributeStaysWhenAPieceTooManyIsRemoved) {
  SampleVolume volume;
  volume.put_text(key_of(kBig, Kind::kXattrValue, 1 << 8 | 2), "more");
  volume.commit();
  repair(volume);
  EXPECT_EQ(volume.problems(), Strings{});
  EXPECT_EQ(volume.value_of(key_of(kBig, Kind::kXattrValue, 1 << 8 | 1)).size(), 476u);
}

// Names that a repair would give, of every length that there can be.
TEST(RepairLostTest, LostAndFoundThatHasAllTheNamesAlreadyTakesOneMore) {
  SampleVolume volume;
  InodeRecord home;
  home.mode = S_IFDIR | 0700;
  home.links = 2;
  home.parent = kRootInode;
  volume.put(key_of(InodeNo{11}, Kind::kInode), encode(home));
  volume.put(key_of(kVolumeOwner, Kind::kCounters), encode(CounterRecord{12, 0, 0}));
  volume.put_entry(1, {InodeNo{11}, 9, 4, "lost+found"});
  std::uint64_t cookie = 0;
  for (std::string name = "#5"; name.size() <= kMaxNameBytes; name += "~") {
    volume.put_entry(11, {InodeNo{2}, ++cookie, 8, name});
    if (cookie % 8 == 0) volume.commit();
  }
  for (int i = 1; i < 20; ++i) {
    volume.put_entry(11, {InodeNo{2}, ++cookie, 8, "#5." + std::to_string(i)});
  }
  volume.erase_entry(1, "sym", 4);
  volume.commit();
  EXPECT_EQ(repair(volume).report.found_inodes, 1u);
  EXPECT_EQ(volume.problems(), Strings{});
  const auto entry = decode_dentries(volume.value_of(volume.name_key(1, "lost+found")));
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->front().inode, InodeNo{11});
}

// ---- Keys that are lost -------------------------------------------------------------------------

meta::KeyRange keys_from_to(std::uint64_t first, std::uint64_t end) {
  return {key_of(InodeNo{first}, Kind::kInode), key_of(InodeNo{end}, Kind::kInode)};
}
// The first lost inode from this one on.
std::uint64_t first_lost(const LostKeys& lost, std::uint64_t inode) {
  const auto found = lost.first_in(key_of(InodeNo{inode}, Kind::kInode), key_of(InodeNo{99}, {}));
  return found ? found->owner : 0;
}

TEST(LostKeysTest, RangeWithinAnotherOneTakesNothingOffIt) {
  const LostKeys lost({keys_from_to(20, 30), keys_from_to(2, 9), keys_from_to(3, 5),
                       keys_from_to(8, 11), keys_from_to(11, 12)});
  EXPECT_EQ(first_lost(lost, 1), 2u);
  EXPECT_EQ(first_lost(lost, 6), 6u);
  EXPECT_EQ(first_lost(lost, 11), 11u);
  EXPECT_EQ(first_lost(lost, 12), 20u);
  EXPECT_EQ(first_lost(lost, 30), 0u);
}

TEST(LostKeysTest, RangeWithoutAnEndHoldsAllThatBeginLater) {
  const LostKeys lost({{key_of(InodeNo{5}, Kind::kInode), {}}, keys_from_to(6, 8),
                       keys_from_to(2, 6)});
  EXPECT_EQ(first_lost(lost, 1), 2u);
  EXPECT_EQ(first_lost(lost, 9), 9u);
}

}  // namespace
}  // namespace lazyfs::fsck
