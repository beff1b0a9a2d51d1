// Where a repair writes the copies of blocks that two extents claim (fsck/block_copies.cc).
#include <gtest/gtest.h>

#include <algorithm>

#include "test/fsck/corruptions.h"
#include "test/fsck/repaired.h"
#include "test/meta/forwarding_store.h"

namespace lazyfs::fsck {
namespace {

// Counts the batches that wait for a flush.
class FlushCounter final : public meta::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<Seq> apply(const meta::Batch& batch, meta::Reserve reserve) override {
    flushes += batch.flushes_first() ? 1 : 0;
    return ForwardingStore::apply(batch, reserve);
  }
  int flushes = 0;
};

class BlockCopiesTest : public testing::Test {
 protected:
  // Inode 4 gets the three blocks of inode 6's first extent, in band kB1.
  static void claim_twice(SampleVolume& volume) {
    volume.change_extent(6, 0, [&](const ExtentRecord& extent) {
      volume.put(key_of(InodeNo{4}, Kind::kExtent), encode(extent));
    });
    volume.commit();
  }
  static void fill(SampleVolume& volume, BandId band, std::uint32_t left) {
    volume.append(band, 64 - left - *volume.device->write_pointer(band));
  }
  static void leave_no_room(SampleVolume& volume) {
    const auto log_bands = volume.store->log_bands();
    for (std::uint32_t band = 2; band < volume.device->geometry().band_count(); ++band) {
      if (std::ranges::count(log_bands, BandId{band}) == 0) fill(volume, BandId{band}, 2);
    }
  }
  // Where a repair puts the copy.
  static BandAddress copied_to(SampleVolume& volume) {
    claim_twice(volume);
    const Repaired repaired = repair(volume);
    EXPECT_EQ(repaired.report.copied_blocks, 3u) << testing::PrintToString(repaired.changes);
    EXPECT_EQ(repaired.report.lost_blocks, 0u);
    return decode_extent(volume.value_of(key_of(InodeNo{4}, Kind::kExtent)))->at;
  }
};

TEST_F(BlockCopiesTest, TheyFillABandToItsEnd) {
  SampleVolume fits, lacks_one;
  fill(fits, kB1, 3);
  EXPECT_EQ(copied_to(fits), (BandAddress{kB1, 61}));
  fill(lacks_one, kB1, 2);
  EXPECT_EQ(copied_to(lacks_one), (BandAddress{kB2, 5}));
}

TEST_F(BlockCopiesTest, TheyGoToABandThatIsPartlyWritten) {
  SampleVolume volume;
  fill(volume, kB1, 0);
  fill(volume, kB2, 0);
  ASSERT_LT(SampleVolume::kUnused, kB3);
  EXPECT_EQ(copied_to(volume), (BandAddress{kB3, 5}));
}

TEST_F(BlockCopiesTest, TheyGoToABandThatCanBeWritten) {
  SampleVolume volume;
  volume.device->retire(kB1, device::BandCondition::kReadOnly);
  volume.device->retire(kB2, device::BandCondition::kOffline);
  EXPECT_EQ(copied_to(volume), (BandAddress{kB3, 5}));
}

TEST_F(BlockCopiesTest, WithoutRoomTheBlocksAreLost) {
  SampleVolume volume;
  leave_no_room(volume);
  claim_twice(volume);
  const Repaired repaired = repair(volume);
  EXPECT_EQ(repaired.report.copied_blocks, 0u);
  EXPECT_EQ(repaired.report.lost_blocks, 3u);
  EXPECT_TRUE(std::ranges::any_of(repaired.changes, [](const std::string& change) {
    return change.find("there is no room to copy them") != std::string::npos;
  })) << testing::PrintToString(repaired.changes);
  EXPECT_EQ(volume.problems(), Strings{});
}

TEST_F(BlockCopiesTest, BlocksThatTheAppendLogGivesBackAreNotLost) {
  SampleVolume volume;
  const auto before = readable(volume);
  leave_no_room(volume);
  claim_twice(volume);
  const Repaired repaired =
      repair(volume, {{key_of(InodeNo{4}, Kind::kExtent), key_of(InodeNo{5}, Kind::kInode)}});
  EXPECT_EQ(repaired.report.copied_blocks, 0u);
  EXPECT_EQ(repaired.report.salvaged_blocks, 3u);
  EXPECT_EQ(repaired.report.lost_blocks, 0u) << testing::PrintToString(repaired.changes);
  EXPECT_EQ(volume.problems(), Strings{});
  EXPECT_EQ(readable(volume), before);
}

TEST_F(BlockCopiesTest, BlocksOfASharedExtentInodeAreLostByItsFiles) {
  SampleVolume volume;
  leave_no_room(volume);
  volume.change_extent(6, 4, [&](const ExtentRecord& extent) {
    volume.put(key_of(InodeNo{10}, Kind::kExtent), encode(extent));
  });
  volume.commit();
  const Repaired repaired = repair(volume);
  EXPECT_EQ(repaired.report.lost_blocks, 6u) << testing::PrintToString(repaired.changes);
  ASSERT_EQ(repaired.report.losses.size(), 2u);
  EXPECT_EQ(repaired.report.losses[0].path, "/left");
  EXPECT_EQ(repaired.report.losses[1].path, "/right");
  EXPECT_EQ(volume.problems(), Strings{});
}

// Else a power cut might keep the references to the copies without the copies.
TEST_F(BlockCopiesTest, TheyAreDurableBeforeWhatRefersToThem) {
  SampleVolume volume;
  claim_twice(volume);
  FlushCounter store(*volume.store);
  FixedClock clock;
  ASSERT_TRUE(fsck::repair(store, *volume.device, clock, [](const std::string&) {}).result);
  EXPECT_EQ(store.flushes, 1);
}

// Two copies go to one band, which is reset once. A band is not reset whose extents and summary are
// lost, but not its append log: its blocks are recovered later.
TEST_F(BlockCopiesTest, WithoutWritePointersTheyGoToABandThatNothingRefersTo) {
  SampleVolume volume({.keeps_write_pointers = false});
  const auto before = readable(volume);
  const auto claim = [&](std::uint64_t inode, std::uint64_t file_block, BandAddress at) {
    AlignedBuffer block(kBlockBytes);
    ASSERT_TRUE(volume.device->read(at, block.span()));
    volume.put(key_of(InodeNo{inode}, Kind::kExtent, file_block),
               encode(ExtentRecord{at, at.rba, {crc32c(block.span())}}));
  };
  claim(6, 3, {kB3, 1});
  claim(9, 0, {kB1, 5});
  for (const std::uint64_t inode : {4, 7}) volume.erase(key_of(InodeNo{inode}, Kind::kExtent));
  volume.erase(key_of(kVolumeOwner, Kind::kBandSummary, kB2.value));
  volume.commit();
  ASSERT_TRUE(volume.store->close());
  volume.store.reset();
  volume.device->forget_write_pointers();
  volume.open();
  const Repaired repaired =
      repair(volume, {{key_of(InodeNo{4}, Kind::kExtent), key_of(InodeNo{5}, Kind::kInode)},
                      {key_of(InodeNo{7}, Kind::kExtent), key_of(InodeNo{8}, Kind::kInode)}});
  EXPECT_EQ(repaired.report.copied_blocks, 2u) << testing::PrintToString(repaired.changes);
  EXPECT_EQ(repaired.report.salvaged_blocks, 5u);
  EXPECT_EQ(volume.problems({.data = true}), Strings{});
  const auto after = readable(volume);
  EXPECT_EQ(after.at(4), before.at(4));
  EXPECT_EQ(after.at(6).substr(3 * kBlockBytes, kBlockBytes),
            before.at(8).substr(kBlockBytes, kBlockBytes));
  EXPECT_EQ(after.at(9).substr(0, kBlockBytes), before.at(6).substr(5 * kBlockBytes, kBlockBytes));
}

}  // namespace
}  // namespace lazyfs::fsck
