// Repairs of blocks that several files share (fsck/shared_extents.cc). Each way in which
// single items can disagree is in corruptions.h; these tests are about what was lost.
#include <algorithm>
#include <random>
#include <set>

#include "base/endian.h"
#include "test/fsck/repaired.h"
#include "fs/volume/volume.h"
#include "test/support/seed.h"
#include "test/support/units.h"

namespace lazyfs::fsck {
namespace {

constexpr InodeNo kLeft{8}, kRight{9}, kShared{10};

void lose_shared(SampleVolume& volume) {
  for (const meta::Key key :
       {key_of(kShared, Kind::kInode), key_of(kShared, Kind::kExtent),
        key_of(kShared, Kind::kReferenceCount, 0), key_of(kShared, Kind::kReferenceCount, 2)}) {
    volume.erase(key);
  }
  volume.commit();
}
void lose_left(SampleVolume& volume) {
  volume.erase(key_of(kLeft, Kind::kInode));
  volume.erase(key_of(kLeft, Kind::kExtent));
  volume.commit();
}
bool is_part_of_any(const Readable::Contents& contents, std::string_view bytes) {
  return std::ranges::any_of(
      contents, [&](const auto& file) { return file.second.find(bytes) != std::string::npos; });
}

TEST(RepairSharedExtentsTest, ShareCountsAreWhatIsReferredTo) {
  SampleVolume volume;
  volume.change_inode(9, [](InodeRecord& r) {
    r.size = 10 * kB;
    r.blocks = 5;
  });
  volume.put_reference(9, 7, 10, 1, 3);
  volume.commit();
  const auto before = readable(volume);
  ASSERT_EQ(before.at(9).substr(7 * kB),
            before.at(8).substr(kB, 2 * kB) + before.at(9).substr(9 * kB));
  repair(volume);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  const auto count = [&](std::uint64_t block) {
    return *decode_reference_count(volume.value_of(key_of(kShared, Kind::kReferenceCount, block)));
  };
  EXPECT_EQ(count(0), (ReferenceCountRecord{1, 2}));
  EXPECT_EQ(count(1), (ReferenceCountRecord{1, 3}));
  EXPECT_EQ(count(2), (ReferenceCountRecord{2, 2}));
  EXPECT_EQ(readable(volume), before);
}

TEST(RepairSharedExtentsTest, BlocksThatNoFileRefersToAreFreed) {
  SampleVolume volume;
  volume.change_reference(8, 0, [](ReferenceRecord& r) { r.count = 3; });
  volume.commit();
  const Repaired repaired = repair(volume);
  EXPECT_EQ(repaired.report.lost_blocks, 0u);
  EXPECT_EQ(repaired.report.found_inodes, 0u);
  EXPECT_EQ(volume.problems(), Strings{});
  EXPECT_EQ(volume.report.shared_blocks, 3u);
}

// The file has all blocks, whatever the size of the shared-extent inode was.
TEST(RepairSharedExtentsTest, SharedInodeThatNoFileRefersToIsAFileInLostAndFound) {
  SampleVolume volume;
  const std::string text = readable(volume).at(8);
  volume.change_inode(10, [](InodeRecord& r) { r.size = 2 * kB; });
  volume.erase(key_of(kLeft, Kind::kExtent, 0));
  volume.erase(key_of(kRight, Kind::kExtent, 1));
  volume.commit();
  EXPECT_EQ(repair(volume).report.found_inodes, 1u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  const auto after = readable(volume);
  EXPECT_EQ(after.at(kShared.value).substr(0, text.size()), text);
  EXPECT_EQ(decode_inode(volume.value_of(key_of(kShared, Kind::kInode)))->mode, S_IFREG | 0600u);
}

// Files refer to it, but to blocks that it lacks. Its own blocks are not freed.
TEST(RepairSharedExtentsTest, SharedInodeWithoutAnyBlockThatIsReferredToIsAFile) {
  SampleVolume volume;
  const std::string text = readable(volume).at(8);
  volume.change_reference(8, 0, [](ReferenceRecord& r) { r.block = 8; });
  volume.change_reference(9, 1, [](ReferenceRecord& r) { r.block = 8; });
  volume.commit();
  EXPECT_EQ(repair(volume).report.found_inodes, 1u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_EQ(readable(volume).at(kShared.value).substr(0, text.size()), text);
}

TEST(RepairSharedExtentsTest, WhatAReferenceHasLostIsReported) {
  SampleVolume volume;
  volume.change_reference(9, 1, [](ReferenceRecord& r) { r.block = 3; });
  volume.commit();
  const Repaired repaired = repair(volume);
  EXPECT_EQ(repaired.report.lost_blocks, 1u);
  EXPECT_TRUE(std::ranges::any_of(repaired.changes, [](const std::string& text) {
    return text.starts_with(
        "Inode 9: 1 blocks from block 2 on were of inode 10, which lacks them: they are lost");
  })) << testing::PrintToString(repaired.changes);
  const auto after = readable(volume);
  EXPECT_EQ(after.at(9).substr(kB, kB),
            after.at(8).substr(3 * kB) + after.at(9).substr(2 * kB - 7, 7));
  EXPECT_EQ(after.at(9).substr(2 * kB), std::string(kB, '\0'));
}

TEST(RepairSharedExtentsTest, ReferencesToBlocksOfAFileGetCopies) {
  SampleVolume volume;
  volume.change_reference(9, 1, [](ReferenceRecord& r) { r = {InodeNo{6}, 2, 2}; });
  volume.commit();
  const auto before = readable(volume);
  const Repaired repaired = repair(volume);
  EXPECT_EQ(repaired.report.copied_blocks, 1u);
  EXPECT_EQ(repaired.report.lost_blocks, 1u);  // the file has a hole there
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  const auto after = readable(volume);
  EXPECT_EQ(after.at(6), before.at(6));
  EXPECT_EQ(after.at(9), std::string(kB, '\0') + before.at(6).substr(2 * kB, 2 * kB));
}

// Blocks 2 to 8, of which 3 is a hole, in three extents.
TEST(RepairSharedExtentsTest, ReferenceToSeveralExtentsOfAFileGetsCopiesOfAll) {
  SampleVolume volume;
  volume.change_inode(9, [](InodeRecord& r) { r.size = 8 * kB; });
  volume.change_reference(9, 1, [](ReferenceRecord& r) { r = {InodeNo{6}, 2, 7}; });
  volume.commit();
  std::string expected = readable(volume).at(6).substr(2 * kB);
  expected.resize(7 * kB);
  const Repaired repaired = repair(volume);
  EXPECT_EQ(repaired.report.copied_blocks, 6u);
  EXPECT_EQ(repaired.report.lost_blocks, 1u);
  EXPECT_TRUE(std::ranges::any_of(repaired.changes, [](const std::string& text) {
    return text.starts_with("Inode 9: 1 blocks from block 2 on were of inode 6");
  })) << testing::PrintToString(repaired.changes);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_EQ(readable(volume).at(9).substr(kB, 6 * kB), expected.substr(0, 6 * kB));
}

TEST(RepairSharedExtentsTest, ReferenceKeepsTheBlocksAroundThoseThatItHasLost) {
  SampleVolume volume;
  const auto before = readable(volume);
  volume.change_extent(10, 0, [&](ExtentRecord& extent) {
    const std::vector<std::uint32_t> last(extent.crcs.begin() + 2, extent.crcs.end());
    volume.put(key_of(kShared, Kind::kExtent, 2),
               encode(ExtentRecord{{SampleVolume::kB3, 2}, 0, last}));
    extent.crcs.resize(1);
  });
  volume.commit();
  const RepairReport report = repair(volume).report;
  EXPECT_EQ(report.lost_blocks, 2u);
  ASSERT_EQ(report.losses.size(), 2u);
  EXPECT_EQ(report.losses[0].path, "/left");
  EXPECT_EQ(report.losses[0].blocks, 1u);
  EXPECT_EQ(report.losses[1].path, "/right");
  EXPECT_EQ(report.losses[1].blocks, 1u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  const std::string hole(kB, '\0');
  const auto after = readable(volume);
  EXPECT_EQ(after.at(8), before.at(8).substr(0, kB) + hole + before.at(8).substr(2 * kB));
  EXPECT_EQ(after.at(9), before.at(9).substr(0, 2 * kB) + hole);
}

// The blocks of the shared-extent inode are not counted besides those of the files.
TEST(RepairSharedExtentsTest, BlocksOfASharedInodeAreLostByItsFiles) {
  SampleVolume volume;
  volume.change_extent(10, 0, [](ExtentRecord& extent) { extent.at.band = BandId{24}; });
  volume.commit();
  EXPECT_EQ(repair(volume).report.lost_blocks, 6u);
}

TEST(RepairSharedExtentsTest, SharedInodeThatCallsItselfAShortFileKeepsItsBlocks) {
  SampleVolume volume;
  const auto before = readable(volume);
  volume.change_inode(10, [](InodeRecord& r) {
    r.mode = S_IFREG | 0644;
    r.size = kB;
  });
  volume.commit();
  EXPECT_EQ(repair(volume).report.lost_blocks, 0u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_EQ(readable(volume), before);
}

// It would show what it never had, else. One size ends between two extents, the other one within an
// extent.
TEST(RepairSharedExtentsTest, FileThatIsReferredToDoesNotGrow) {
  for (const std::uint64_t bytes : {8 * kB, 6 * kB}) {
    SampleVolume volume;
    volume.change_reference(9, 1, [](ReferenceRecord& r) { r.shared = InodeNo{6}; });
    volume.change_inode(6, [&](InodeRecord& r) { r.size = bytes; });
    volume.commit();
    const auto before = readable(volume);
    ASSERT_EQ(before.at(6).size(), bytes);
    repair(volume);
    EXPECT_EQ(volume.problems({.data = true}), Strings{});
    EXPECT_EQ(readable(volume).at(6), before.at(6));
  }
}

// ---- Lost leaves --------------------------------------------------------------------------------

TEST(RepairSharedExtentsTest, LostSharedInodeIsFoundByTheAppendLog) {
  SampleVolume volume;
  const auto before = readable(volume);
  lose_shared(volume);
  const Repaired repaired = repair(volume, {all_of(kShared)});
  EXPECT_EQ(repaired.report.salvaged_blocks, 4u);
  EXPECT_EQ(repaired.report.lost_blocks, 0u);
  EXPECT_EQ(repaired.report.found_inodes, 0u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_EQ(readable(volume), before);
}

TEST(RepairSharedExtentsTest, BlocksPastTheSizeOfASharedInodeAreFoundByTheAppendLog) {
  SampleVolume volume;
  const auto before = readable(volume);
  volume.erase(key_of(kShared, Kind::kExtent));
  volume.change_inode(10, [](InodeRecord& r) { r.size = 2 * kB; });
  volume.commit();
  const meta::KeyRange lost{key_of(kShared, Kind::kExtent), key_of(kShared, Kind::kExtent, 1)};
  EXPECT_EQ(repair(volume, {lost}).report.salvaged_blocks, 4u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_EQ(readable(volume), before);
}

// The next leaf remains, with reference counts that say nothing of its size.
TEST(RepairSharedExtentsTest, SharedInodeOfWhichOnlyShareCountsAreLeftIsFoundByTheAppendLog) {
  SampleVolume volume;
  const auto before = readable(volume);
  volume.erase(key_of(kShared, Kind::kInode));
  volume.erase(key_of(kShared, Kind::kExtent));
  volume.commit();
  const Repaired repaired =
      repair(volume, {{key_of(kShared, Kind::kInode), key_of(kShared, Kind::kReferenceCount)}});
  EXPECT_EQ(repaired.report.salvaged_blocks, 4u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_EQ(readable(volume), before);
}

// Loses kLeft. A repair makes a file of its blocks.
void expect_blocks_of_left_are_a_file(SampleVolume& volume) {
  const auto before = readable(volume);
  lose_left(volume);
  EXPECT_EQ(repair(volume, {all_of(kLeft)}).report.found_inodes, 1u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  const auto after = readable(volume);
  EXPECT_EQ(after.at(9), before.at(9));
  // Blocks 0 and 1 are in the other file, too; the last block has more than the file had.
  const std::string tail = before.at(8).substr(2 * kB);
  EXPECT_EQ(after.at(11).substr(2 * kB, tail.size()), tail);
}

TEST(RepairSharedExtentsTest, BlocksOfALostFileAreAFileOfTheirOwn) {
  SampleVolume volume;
  expect_blocks_of_left_are_a_file(volume);
}

// The extent before them keeps all of its blocks.
TEST(RepairSharedExtentsTest, WholeExtentsOfALostFileAreAFileOfTheirOwn) {
  SampleVolume volume;
  volume.change_extent(10, 0, [&](ExtentRecord& extent) {
    const std::vector<std::uint32_t> last(extent.crcs.begin() + 2, extent.crcs.end());
    volume.put(key_of(kShared, Kind::kExtent, 2),
               encode(ExtentRecord{{SampleVolume::kB3, 2}, 0, last}));
    extent.crcs.resize(2);
  });
  volume.commit();
  expect_blocks_of_left_are_a_file(volume);
}

// They may have been the same blocks of two files.
TEST(RepairSharedExtentsTest, BlocksOfTwoSharedInodesAreTwoFiles) {
  SampleVolume volume;
  InodeRecord shared;
  shared.mode = kSharedMode;
  shared.links = 1;
  shared.size = 2 * kB;
  shared.blocks = 2;
  volume.put(key_of(InodeNo{11}, Kind::kInode), encode(shared));
  const auto crcs = volume.append(SampleVolume::kUnused, 2);
  volume.put(key_of(InodeNo{11}, Kind::kExtent),
             encode(ExtentRecord{{SampleVolume::kUnused, 0}, 0, crcs}));
  volume.put(key_of(SampleVolume::kUnused, Kind::kAppendRecord),
             encode(AppendRecord{InodeNo{11}, 0, 2, checksum_of(crcs)}));
  volume.put(key_of(kVolumeOwner, Kind::kBandSummary, SampleVolume::kUnused.value),
             encode(BandSummaryRecord{.appended = 2, .live = 2, .append_records = 1}));
  volume.put_share_count(11, 0, 1, 2);
  volume.put_share_count(11, 1, 1, 1);
  volume.put_reference(9, 0, 11, 0, 1);
  volume.change_inode(9, [](InodeRecord& r) { r.blocks = 3; });
  volume.put_reference(8, 4, 11, 0, 2);
  volume.change_inode(8, [](InodeRecord& r) {
    r.size = 6 * kB;
    r.blocks = 6;
  });
  volume.put(key_of(kVolumeOwner, Kind::kCounters),
             encode(CounterRecord{.next_inode = 12, .inodes = 9}));
  volume.commit();
  ASSERT_EQ(volume.problems({.data = true}), Strings{});
  const auto before = readable(volume);
  volume.erase(key_of(kLeft, Kind::kExtent, 4));
  lose_left(volume);
  EXPECT_EQ(repair(volume, {all_of(kLeft)}).report.found_inodes, 2u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  const auto after = readable(volume);
  EXPECT_EQ(after.at(9), before.at(9));
  EXPECT_EQ(after.at(12).substr(2 * kB), before.at(8).substr(2 * kB, 2 * kB));
  EXPECT_EQ(after.at(13).substr(kB), before.at(8).substr(5 * kB));
}

// Or the next mount would delete it.
TEST(RepairSharedExtentsTest, BlocksOfALostFileGetNoNumberThatIsToBeDeleted) {
  SampleVolume volume;
  lose_left(volume);
  volume.put(key_of(kVolumeOwner, Kind::kOrphan, 11),
             encode(OrphanRecord{OrphanRecord::Work::kDelete}));
  volume.commit();
  repair(volume, {all_of(kLeft)});
  EXPECT_EQ(volume.problems(), Strings{});
  const auto after = readable(volume);
  EXPECT_FALSE(after.contains(11));
  EXPECT_TRUE(after.contains(12));
}

// Or a file would show blocks that it never had.
TEST(RepairSharedExtentsTest, BlocksOfALostFileGetNoNumberThatAReferenceLeadsTo) {
  SampleVolume volume;
  const auto before = readable(volume);
  lose_left(volume);
  volume.put_reference(9, 0, 10, 0, 1);
  volume.change_reference(9, 1, [](ReferenceRecord& r) { r = {InodeNo{11}, 2, 2}; });
  volume.commit();
  repair(volume, {all_of(kLeft)});
  EXPECT_EQ(volume.problems(), Strings{});
  const auto after = readable(volume);
  EXPECT_EQ(after.at(9), before.at(8).substr(0, kB) + std::string(2 * kB, '\0'));
  EXPECT_FALSE(after.contains(11));
  EXPECT_TRUE(after.contains(12));
}

TEST(RepairSharedExtentsTest, SharedInodeWhoseFilesAreAllLostIsAFile) {
  SampleVolume volume;
  const auto before = readable(volume);
  lose_left(volume);
  volume.erase(key_of(kRight, Kind::kInode));
  volume.erase(key_of(kRight, Kind::kExtent, 1));
  volume.commit();
  repair(volume, {{key_of(kLeft, Kind::kInode), key_of(kShared, Kind::kInode)}});
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  EXPECT_EQ(readable(volume).at(10).substr(0, before.at(8).size()), before.at(8));
}

TEST(RepairSharedExtentsTest, InterruptedRepairStillFindsALostSharedInode) {
  interrupt_everywhere(lose_shared, all_of(kShared),
                       [](const Readable::Contents& before, const Readable::Contents& after) {
                         EXPECT_EQ(after, before);
                       });
}

TEST(RepairSharedExtentsTest, InterruptedRepairStillFindsTheBlocksOfALostFile) {
  interrupt_everywhere(lose_left, all_of(kLeft),
                       [](const Readable::Contents& before, const Readable::Contents& after) {
                         EXPECT_EQ(after.at(9), before.at(9));
                         EXPECT_TRUE(is_part_of_any(after, before.at(8).substr(2 * kB)));
                       });
}

// ---- Any leaf -----------------------------------------------------------------------------------

// Files that are copied, in whole and in part, and overwritten, at random.
class DamagedSharesTest : public testing::Test {
 protected:
  void SetUp() override {
    device = device::MemoryDevice::uniform(64, 256);
    FixedClock clock;
    ASSERT_TRUE(mkfs::make_filesystem(*device, {.uuid = sample_uuid()}, clock));
    const auto volume = Volume::mount(*device, {.background = false}, clock);
    ASSERT_TRUE(volume);
    std::mt19937_64 random(test_seed());
    for (std::uint64_t i = 0; i < 60; ++i) make_file(**volume, i, random);
    for (int i = 0; i < 150; ++i) copy_or_overwrite(**volume, random);
    ASSERT_TRUE((*volume)->unmount());
    all = Readable::of(*device);
    ASSERT_EQ(all.size(), 60u);
  }

  void make_file(Volume& volume, std::uint64_t number, std::mt19937_64& random) {
    const auto created = volume.create(kRootInode, "f" + std::to_string(number), 0644, {});
    ASSERT_TRUE(created);
    volume.release(created->file);
    files.push_back(created->attributes.inode);
    overwrite(volume, files.back(), 0, 1 + random() % 30);
  }
  void overwrite(Volume& volume, InodeNo file, std::uint64_t block, std::uint64_t blocks) {
    std::string bytes;
    for (std::uint64_t i = 0; i < blocks; ++i) {
      const std::string number = std::to_string(++written);
      while (bytes.size() < (i + 1) * kB) bytes += number + " ";
      bytes.resize((i + 1) * kB);
    }
    ASSERT_TRUE(volume.write(file, block * kB, std::as_bytes(std::span(bytes))));
  }
  void copy_or_overwrite(Volume& volume, std::mt19937_64& random) {
    const InodeNo from = files[random() % files.size()], to = files[random() % files.size()];
    const std::uint64_t block = random() % 20, to_block = random() % 20;
    if (random() % 4 == 0) return overwrite(volume, to, to_block, 1 + random() % 4);
    const auto copied =
        volume.copy_range(from, block * kB, to, to_block * kB, (1 + random() % 40) * kB, false);
    ASSERT_TRUE(copied || from == to) << describe(copied.error());
  }

  // The newest image of each node.
  std::vector<BandAddress> leaves() {
    std::map<std::uint64_t, std::pair<std::uint64_t, BandAddress>> newest;
    std::set<std::uint64_t> inner;
    AlignedBuffer block(kBlockBytes);
    for (std::uint32_t band = 2; band < device->geometry().band_count(); ++band) {
      for (std::uint32_t rba = 0; rba < *device->write_pointer(BandId{band}); ++rba) {
        device->peek({BandId{band}, rba}, block.span());
        if (std::memcmp(block.data(), "LZND", 4) != 0) continue;
        const auto seq = load_le_at<std::uint64_t>(block.span(), 8);
        const auto node = load_le_at<std::uint64_t>(block.span(), 16);
        if (load_le_at<std::uint8_t>(block.span(), 24) > 0) inner.insert(node);
        if (newest[node].first <= seq) newest[node] = {seq, {BandId{band}, rba}};
      }
    }
    std::vector<BandAddress> found;
    for (const auto& [node, place] : newest) {
      if (!inner.contains(node)) found.push_back(place.second);
    }
    return found;
  }

  void repair() {
    Strings changes, left;
    const auto listener = [&](const std::string& text) { changes.push_back(text); };
    const auto store = open_for_repair(*device, listener);
    ASSERT_TRUE(store) << describe(store.error());
    see_what_is_lost(**store);
    FixedClock clock;
    const RepairReport report = fsck::repair(**store, *device, clock, listener);
    ASSERT_TRUE(report.result) << describe(report.result.error());
    losses.clear();
    for (const Loss& loss : report.losses) losses.insert(loss.inode.value);
    EXPECT_TRUE(check(**store, *device, {.data = true},
                      [&](const std::string& text) { left.push_back(text); }));
    EXPECT_EQ(left, Strings{}) << testing::PrintToString(changes);
    EXPECT_TRUE((*store)->close());
  }

  // Every transaction is made durable that changes more than a few nodes; the power goes before the
  // n-th write.
  bool repair_until(std::uint64_t n) {
    device::FaultyDevice faulty(*device);
    faulty.cut_power_at_change(n);
    FixedClock clock;
    const auto listener = [](const std::string&) {};
    const auto store = open_for_repair(
        faulty, listener, {.cache_bytes = std::size_t{16} * kBlockBytes, .background = false});
    return store && fsck::repair(**store, faulty, clock, listener).result &&
           (*store)->close();
  }

  void expect_nothing_foreign() {
    const std::string zeros(kB, '\0');
    for (const auto& [inode, bytes] : Readable::of(*device)) {
      for (std::size_t at = 0; all.contains(inode) && at < bytes.size(); at += kB) {
        const std::string block = bytes.substr(at, kB);
        if (block == zeros || at >= all.at(inode).size()) continue;
        ASSERT_EQ(block, all.at(inode).substr(at, kB)) << "inode " << inode << " at " << at;
      }
    }
  }

  void expect_losses_reported() {
    const auto now = Readable::of(*device);
    for (const auto& [inode, bytes] : all) {
      const bool is_left = now.contains(inode) && now.at(inode) == bytes;
      EXPECT_TRUE(is_left || losses.contains(inode)) << "inode " << inode;
    }
  }

  void see_what_is_lost(meta::Store& store) {
    lost_both = false;
    const auto ranges = store.scan(key_of(kVolumeOwner, Kind::kLostRange),
                                   key_of(kVolumeOwner, Kind::kLostRange, meta::kMaxOffset), 100);
    ASSERT_TRUE(ranges);
    for (const meta::Item& item : *ranges) {
      const auto range = decode_lost_range(item.value);
      ASSERT_TRUE(range);
      const bool to_bands = !range->end || range->end->owner > kVolumeOwner;
      lost_both |= range->first.owner <= kMaxInode && to_bands;
    }
  }

  std::unique_ptr<device::MemoryDevice> device;
  bool lost_both = false;  // extents, and logs of bands: the one cannot be made of the other
  std::set<std::uint64_t> losses;  // inodes with losses that the last repair has reported
  std::vector<InodeNo> files;
  Readable::Contents all;
  std::uint64_t written = 0;
};

// Each block of a file that is left is what it was, or lost, and any that one file showed is shown
// by one still: by the one that had it, or in /lost+found.
TEST_F(DamagedSharesTest, LostLeafCostsNoBlockAndLeavesNothingForeign) {
  const std::size_t count = leaves().size();
  ASSERT_GT(count, 4u);
  const std::string zeros(kB, '\0');
  std::size_t judged = 0;
  for (std::size_t leaf = 0; leaf < count; ++leaf) {
    SCOPED_TRACE("leaf " + std::to_string(leaf) + " of LAZYFS_SEED=" + std::to_string(test_seed()));
    written = 0;
    files.clear();
    SetUp();
    device->flip(leaves()[leaf], 5000);
    repair();
    expect_losses_reported();
    const auto now = Readable::of(*device);
    std::set<std::string> shown;
    if (!lost_both) ++judged;
    for (const auto& [inode, bytes] : now) {
      for (std::size_t at = 0; at < bytes.size(); at += kB) {
        const std::string block = bytes.substr(at, kB);
        shown.insert(block);
        if (!all.contains(inode) || block == zeros || at >= all.at(inode).size()) continue;
        ASSERT_EQ(block, all.at(inode).substr(at, kB)) << "inode " << inode << " at " << at;
      }
    }
    if (lost_both) continue;
    for (const auto& [inode, bytes] : all) {
      for (std::size_t at = 0; at < bytes.size(); at += kB) {
        ASSERT_TRUE(shown.contains(bytes.substr(at, kB))) << "inode " << inode << " at " << at;
      }
    }
  }
  EXPECT_GE(judged + 2, count);
}

// Several leaves at once, and a repair that is cut off, twice.
TEST_F(DamagedSharesTest, SeveralLostLeavesLeaveNothingForeign) {
  std::mt19937_64 random(test_seed() + 1);
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE("round " + std::to_string(round) +
                 " of LAZYFS_SEED=" + std::to_string(test_seed()));
    written = 0;
    files.clear();
    SetUp();
    const auto all_leaves = leaves();
    for (std::uint64_t n = 2 + random() % 4; n > 0; --n) {
      device->flip(all_leaves[random() % all_leaves.size()], 5000);
    }
    repair_until(1 + random() % 60);
    repair_until(1 + random() % 60);
    repair();
    expect_nothing_foreign();
  }
}

}  // namespace
}  // namespace lazyfs::fsck
