// What a repair reports as lost of inodes that remain (fsck/lost_parts.cc).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "test/fsck/repaired.h"

namespace lazyfs::fsck {
namespace {

constexpr const char kPerhaps[] = "perhaps contents, which read as zeros";

Strings losses_of(const Repaired& repaired) {
  Strings losses;
  for (const Loss& loss : repaired.report.losses) {
    losses.push_back(loss.path + ": " + lost_parts(loss));
  }
  return losses;
}

class LostPartsTest : public testing::Test {
 protected:
  // Repairs the volume, of which this range of keys is lost.
  Strings repair_without(meta::Key first, meta::Key end) {
    volume.commit();
    return losses_of_repair({{first, end}});
  }
  // The same after a repair that found the range to be lost, and was interrupted.
  Strings repair_again_without(meta::Key first, meta::Key end) {
    volume.commit();
    EXPECT_TRUE(note_lost_ranges(*volume.store, {{first, end}}));
    EXPECT_TRUE(volume.store->close());
    volume.open();
    return losses_of_repair({});
  }
  void erase_extents(std::uint64_t inode, std::initializer_list<std::uint64_t> blocks) {
    for (const std::uint64_t block : blocks) {
      volume.erase(key_of(InodeNo{inode}, Kind::kExtent, block));
    }
  }

  SampleVolume volume;
  Repaired repaired;

 private:
  Strings losses_of_repair(const std::vector<meta::KeyRange>& lost) {
    repaired = repair(volume, lost);
    EXPECT_EQ(volume.problems(), Strings{});
    EXPECT_EQ(repair(volume).changes, Strings{});
    return losses_of(repaired);
  }
};

TEST_F(LostPartsTest, InlineContentsAreReported) {
  volume.erase(key_of(InodeNo{2}, Kind::kInline));
  EXPECT_EQ(repair_without(key_of(InodeNo{2}, Kind::kInline), key_of(InodeNo{3}, Kind::kInode)),
            Strings{std::string("/file: ") + kPerhaps});
  EXPECT_EQ(readable(volume).at(2), std::string(100, '\0'));
  const std::string sentence = "Inode 2: it has lost " + std::string(kPerhaps) + ".";
  EXPECT_EQ(std::ranges::count(repaired.changes, sentence), 1);
}

TEST_F(LostPartsTest, PieceOfInlineContentsIsReported) {
  volume.change_inode(2, [](InodeRecord& r) { r.size = 3000; });
  volume.put_text(inline_key(InodeNo{2}, 0, 0), std::string(1024, 'i'));
  volume.put_text(inline_key(InodeNo{2}, 0, 2), std::string(952, 'i'));
  EXPECT_EQ(repair_without(inline_key(InodeNo{2}, 0, 1), inline_key(InodeNo{2}, 0, 2)),
            Strings{std::string("/file: ") + kPerhaps});
}

TEST_F(LostPartsTest, PiecesThatNoLostKeyCanBeAreNoLoss) {
  volume.change_inode(2, [](InodeRecord& r) { r.size = 3000; });
  EXPECT_EQ(repair_without(inline_key(InodeNo{2}, 0, 3), key_of(InodeNo{3}, Kind::kInode)),
            Strings{});
}

// The append is not what its record says, so that no block of it is proven.
TEST_F(LostPartsTest, BlocksThatAreNotRecoveredAreReported) {
  erase_extents(4, {0});
  volume.device->flip({SampleVolume::kB2, 1}, 77);
  EXPECT_EQ(repair_without(key_of(InodeNo{4}, Kind::kExtent), key_of(InodeNo{5}, Kind::kInode)),
            Strings{"/dir/inner: 12 KiB, which read as zeros"});
  EXPECT_EQ(repaired.report.lost_blocks, 3u);
}

TEST_F(LostPartsTest, HoleBesideBlocksThatAreNotRecoveredIsNoLoss) {
  erase_extents(6, {0, 4});
  volume.device->flip({SampleVolume::kB1, 5}, 77);
  EXPECT_EQ(repair_without(key_of(InodeNo{6}, Kind::kExtent), key_of(InodeNo{6}, Kind::kExtent, 5)),
            Strings{"/big: 28 KiB, which read as zeros"});
}

TEST_F(LostPartsTest, HoleBesideBlocksThatAreRecoveredIsNoLoss) {
  erase_extents(6, {0, 4});
  EXPECT_EQ(repair_without(key_of(InodeNo{6}, Kind::kExtent), key_of(InodeNo{6}, Kind::kExtent, 5)),
            Strings{});
  EXPECT_EQ(repaired.report.salvaged_blocks, 7u);
}

TEST_F(LostPartsTest, BlocksThatNoLostKeyCanHaveMappedAreNoLoss) {
  volume.change_inode(6, [](InodeRecord& r) { r.blocks = 9; });
  EXPECT_EQ(repair_without(key_of(InodeNo{6}, Kind::kExtent, 4),
                           key_of(InodeNo{7}, Kind::kInode)),
            Strings{});
}

TEST_F(LostPartsTest, ReferencesAreReportedAsBlocks) {
  erase_extents(9, {1});
  EXPECT_EQ(repair_without(key_of(InodeNo{9}, Kind::kExtent), key_of(InodeNo{10}, Kind::kInode)),
            Strings{"/right: 8 KiB, which read as zeros"});
}

// The first extent lies in an unwritten band, which one repair action reports. The second one is
// lost, and its append is not what the record of the append says. Another file has a loss, too.
TEST_F(LostPartsTest, BlocksAreReportedOnce) {
  volume.change_extent(6, 0, [](ExtentRecord& e) { e.at.band = SampleVolume::kUnused; });
  erase_extents(6, {4});
  volume.device->flip({SampleVolume::kB1, 5}, 77);
  volume.change_reference(9, 1, [](ReferenceRecord& r) { r.block = 3; });
  EXPECT_EQ(repair_without(key_of(InodeNo{6}, Kind::kExtent, 1),
                           key_of(InodeNo{6}, Kind::kExtent, 5)),
            (Strings{"/big: 12 KiB, which read as zeros", "/right: 4 KiB, which read as zeros",
                     "/big: 16 KiB, which read as zeros"}));
  EXPECT_EQ(repaired.report.lost_blocks, 8u);
}

// Inline data may be lost, but the file has no other hole where such data may have been.
TEST_F(LostPartsTest, BlocksThatAreReportedAreNoInlineContents) {
  volume.change_reference(8, 0, [](ReferenceRecord& r) { r.block = 1; });
  EXPECT_EQ(repair_without(key_of(InodeNo{8}, Kind::kXattrName), key_of(InodeNo{8}, Kind::kExtent)),
            Strings{"/left: 4 KiB, which read as zeros"});
}

// The extent is removed, because it lies in an unwritten band. The append log has its blocks.
TEST_F(LostPartsTest, BlocksOfARemovedExtentThatAreRecoveredAreNoLoss) {
  const auto before = readable(volume);
  volume.change_extent(4, 0, [](ExtentRecord& e) { e.at.band = SampleVolume::kUnused; });
  EXPECT_EQ(repair_without(key_of(InodeNo{4}, Kind::kExtent), key_of(InodeNo{5}, Kind::kInode)),
            Strings{});
  EXPECT_EQ(repaired.report.salvaged_blocks, 3u);
  EXPECT_EQ(repaired.report.lost_blocks, 0u);
  EXPECT_EQ(readable(volume), before);
}

TEST_F(LostPartsTest, BlocksOfARemovedExtentThatAreNotRecoveredAreReported) {
  volume.change_extent(4, 0, [](ExtentRecord& e) { e.at.band = SampleVolume::kUnused; });
  volume.device->flip({SampleVolume::kB2, 1}, 77);
  EXPECT_EQ(repair_without(key_of(InodeNo{4}, Kind::kExtent), key_of(InodeNo{5}, Kind::kInode)),
            Strings{"/dir/inner: 12 KiB, which read as zeros"});
  EXPECT_EQ(repaired.report.lost_blocks, 3u);
}

TEST_F(LostPartsTest, RecordThatIsMadeOfAppendsIsReported) {
  volume.erase(key_of(InodeNo{4}, Kind::kInode));
  erase_extents(4, {0});
  EXPECT_EQ(repair_without(key_of(InodeNo{4}, Kind::kInode), key_of(InodeNo{5}, Kind::kInode)),
            Strings{"/dir/inner: size, owner, mode and times; perhaps contents; "
                    "perhaps extended attributes"});
}

TEST_F(LostPartsTest, RecordThatIsMadeOfItemsIsReported) {
  volume.erase(key_of(InodeNo{4}, Kind::kInode));
  EXPECT_EQ(repair_without(key_of(InodeNo{4}, Kind::kInode), key_of(InodeNo{4}, Kind::kXattrName)),
            Strings{"/dir/inner: size, owner, mode and times"});
  volume.erase(key_of(InodeNo{5}, Kind::kInode));
  EXPECT_EQ(repair_without(key_of(InodeNo{5}, Kind::kInode), key_of(InodeNo{5}, Kind::kSymlink)),
            Strings{"/sym: owner, mode and times"});
  volume.erase(key_of(kRootInode, Kind::kInode));
  EXPECT_EQ(
      repair_without(key_of(kRootInode, Kind::kInode), key_of(kRootInode, Kind::kDentryName)),
      Strings{"/: owner, mode and times"});
}

TEST_F(LostPartsTest, RecordThatAnInterruptedRepairHasMadeIsReported) {
  volume.change_inode(4, [](InodeRecord& r) { r.mode = S_IFREG | 0600; });
  EXPECT_EQ(repair_again_without(key_of(InodeNo{4}, Kind::kInode),
                                 key_of(InodeNo{4}, Kind::kXattrName)),
            Strings{"/dir/inner: perhaps size, owner, mode and times"});
  volume.change_inode(3, [](InodeRecord& r) { r.mode = S_IFDIR | 0700; });
  EXPECT_EQ(repair_again_without(key_of(InodeNo{3}, Kind::kInode),
                                 key_of(InodeNo{3}, Kind::kDentryName)),
            Strings{"/dir: perhaps owner, mode and times"});
  EXPECT_EQ(repair_again_without(key_of(InodeNo{5}, Kind::kInode),
                                 key_of(InodeNo{5}, Kind::kSymlink)),
            Strings{"/sym: perhaps owner, mode and times"});
}

TEST_F(LostPartsTest, RootThatAnInterruptedRepairHasMadeIsReported) {
  EXPECT_EQ(repair_again_without(key_of(kRootInode, Kind::kInode),
                                 key_of(kRootInode, Kind::kDentryName)),
            Strings{"/: perhaps owner, mode and times"});
}

// A range of lost keys begins with the last key before it that is not lost, where an inner node is
// lost.
TEST_F(LostPartsTest, RecordThatNoRepairHasMadeIsNoLoss) {
  const meta::Key first = key_of(InodeNo{4}, Kind::kInode);
  const meta::Key end = key_of(InodeNo{4}, Kind::kXattrName);
  EXPECT_EQ(repair_again_without(first, end), Strings{});
  for (Timestamp InodeRecord::*const time :
       {&InodeRecord::access, &InodeRecord::modification, &InodeRecord::change}) {
    volume.change_inode(4, [&](InodeRecord& r) {
      r.mode = S_IFREG | 0600;
      r.access = r.modification = r.change = {};
      r.*time = {1, 0};
    });
    EXPECT_EQ(repair_again_without(first, end), Strings{});
  }
  volume.change_inode(4, [](InodeRecord& r) {
    r.change = {};
    r.owner.gid = 7;
  });
  EXPECT_EQ(repair_again_without(first, end), Strings{});
}

// No earlier repair was interrupted that may have rebuilt a record.
TEST_F(LostPartsTest, RecordInARangeThatThisRepairFindsLostIsNoLoss) {
  volume.change_inode(4, [](InodeRecord& r) { r.mode = S_IFREG | 0600; });
  EXPECT_EQ(repair_without(key_of(kRootInode, Kind::kInode), key_of(InodeNo{6}, Kind::kInode)),
            Strings{});
}

// The repair that has made a record counts what it finds.
TEST_F(LostPartsTest, RecordThatCountsWhatIsLostWasNotMadeByARepair) {
  volume.change_inode(4, [](InodeRecord& r) { r.mode = S_IFREG | 0600; });
  erase_extents(4, {0});
  volume.device->flip({SampleVolume::kB2, 1}, 77);
  EXPECT_EQ(repair_again_without(key_of(InodeNo{4}, Kind::kInode),
                                 key_of(InodeNo{5}, Kind::kInode)),
            Strings{"/dir/inner: 12 KiB, which read as zeros"});
}

TEST_F(LostPartsTest, NamesAndAttributesAreCounted) {
  volume.erase_entry(3, "inner", 1);
  EXPECT_EQ(repair_without(key_of(InodeNo{3}, Kind::kDentryName), key_of(InodeNo{4}, Kind::kInode)),
            Strings{"/dir: 1 of its names"});
  for (const std::uint64_t id : {1, 2}) {
    volume.erase(key_of(InodeNo{6}, Kind::kXattrName, id));
    volume.erase(key_of(InodeNo{6}, Kind::kXattrValue, 1 << 8 | (id - 1)));
  }
  EXPECT_EQ(repair_without(key_of(InodeNo{6}, Kind::kXattrName),
                           key_of(InodeNo{6}, Kind::kExtent)),
            Strings{"/big: " + std::string(kPerhaps) + "; 2 of its extended attributes"});
}

TEST_F(LostPartsTest, WrongCountsOfWhatIsNotLostAreNoLosses) {
  volume.change_inode(3, [](InodeRecord& r) { r.entries = r.xattrs = 5; });
  EXPECT_EQ(repair_without(key_of(InodeNo{3}, Kind::kInline), key_of(InodeNo{3}, Kind::kExtent)),
            Strings{});
}

// The files that refer to its blocks report what they have lost.
TEST_F(LostPartsTest, RecordOfASharedExtentInodeIsNoLoss) {
  volume.erase(key_of(InodeNo{10}, Kind::kInode));
  EXPECT_EQ(repair_without(key_of(InodeNo{10}, Kind::kInode), key_of(InodeNo{10}, Kind::kExtent)),
            Strings{});
}

TEST_F(LostPartsTest, LossesOfTwoInodesAreTwoLosses) {
  volume.erase(key_of(InodeNo{4}, Kind::kInode));
  volume.erase(key_of(InodeNo{5}, Kind::kInode));
  EXPECT_EQ(
      repair_without(key_of(InodeNo{4}, Kind::kExtent, 1), key_of(InodeNo{5}, Kind::kSymlink)),
      (Strings{"/dir/inner: size, owner, mode and times; perhaps contents",
               "/sym: owner, mode and times"}));
}

TEST_F(LostPartsTest, LossesOfAnInodeAreOneLoss) {
  volume.erase(key_of(InodeNo{5}, Kind::kSymlink, 1));
  volume.change_inode(5, [](InodeRecord& r) { r.xattrs = 1; });
  EXPECT_EQ(
      repair_without(key_of(InodeNo{5}, Kind::kSymlink, 1), key_of(InodeNo{6}, Kind::kInode)),
      Strings{"/sym: perhaps the end of its target; 1 of its extended attributes"});
}

TEST_F(LostPartsTest, BlocksAndOtherLossesOfAnInodeAreOneLoss) {
  erase_extents(6, {0, 4});
  volume.device->flip({SampleVolume::kB1, 5}, 77);
  volume.erase(key_of(InodeNo{6}, Kind::kXattrName, 2));
  EXPECT_EQ(repair_without(key_of(InodeNo{6}, Kind::kXattrName, 2),
                           key_of(InodeNo{6}, Kind::kExtent, 5)),
            Strings{"/big: 28 KiB, which read as zeros; " + std::string(kPerhaps) +
                    "; 1 of its extended attributes"});
}

// The inode is lost, too, and has a name no longer.
TEST_F(LostPartsTest, NameOfALostInodeIsReportedOnce) {
  volume.erase(key_of(InodeNo{4}, Kind::kInode));
  erase_extents(4, {0});
  volume.device->flip({SampleVolume::kB2, 1}, 77);
  EXPECT_EQ(repair_without(key_of(InodeNo{3}, Kind::kDentryName), key_of(InodeNo{5}, Kind::kInode)),
            Strings{"/dir/inner: "});
}

TEST_F(LostPartsTest, EndOfATargetIsReported) {
  volume.erase(key_of(InodeNo{5}, Kind::kSymlink, 1));
  EXPECT_EQ(repair_without(key_of(InodeNo{5}, Kind::kSymlink, 1), key_of(InodeNo{6}, Kind::kInode)),
            Strings{"/sym: perhaps the end of its target"});
}

// Nothing says what an inode that is to be deleted has lost, and no one will read it.
TEST_F(LostPartsTest, InodeThatIsToBeDeletedHasNoLosses) {
  erase_extents(7, {0});
  volume.device->flip({SampleVolume::kB2, 3}, 77);
  EXPECT_EQ(repair_without(key_of(InodeNo{7}, Kind::kExtent), key_of(InodeNo{8}, Kind::kInode)),
            Strings{});
}

}  // namespace
}  // namespace lazyfs::fsck
