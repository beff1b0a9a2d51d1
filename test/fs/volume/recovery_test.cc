// What a mount does before the first operation: with the bands after a crash, and where metadata is
// unusual.

#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>

#include "data/band_table.h"
#include "device/faulty.h"
#include "device/memory.h"
#include "fs/item/schema.h"
#include "fs/volume/recovery.h"
#include "fs/volume/volume.h"
#include "meta/store/store.h"
#include "mkfs/mkfs.h"
#include "test/fsck/sample_volume.h"

namespace lazyfs::fs {
namespace {

// As many as one scan returns, so that the scan that follows would begin past the largest key.
TEST(RecoveryTest, OrphanWithTheLargestKeyDoesNotKeepTheMountFromEnding) {
  constexpr std::uint64_t kOrphans = 1024;
  const auto device = device::MemoryDevice::uniform(64, 256);
  ASSERT_TRUE(mkfs::make_filesystem(*device, {}));
  {
    const auto store = meta::Store::open(*device, {.background = false});
    ASSERT_TRUE(store) << describe(store.error());
    for (std::uint64_t i = 0; i < kOrphans; ++i) {
      meta::Batch batch;
      batch.put(key_of(kVolumeOwner, Kind::kOrphan, meta::kMaxOffset - i), encode(OrphanRecord{}));
      ASSERT_TRUE((*store)->apply(batch));
    }
    ASSERT_TRUE((*store)->close());
  }
  const auto volume = Volume::mount(*device, {.background = false});
  ASSERT_TRUE(volume) << describe(volume.error());
  EXPECT_TRUE((*volume)->get_attributes(kRootInode));
  EXPECT_TRUE((*volume)->unmount());
}

// The number of such a band does not fit into 32 bits: cut off, it would be that of another band.
TEST(RecoveryTest, SummaryOfABandThatDoesNotExistChangesNoOtherBand) {
  const auto device = device::MemoryDevice::uniform(64, 256);
  ASSERT_TRUE(mkfs::make_filesystem(*device, {}));
  const std::string text(100'000, 'x');
  InodeNo file;
  {
    const auto volume = Volume::mount(*device, {.background = false});
    ASSERT_TRUE(volume) << describe(volume.error());
    const auto made = (*volume)->create(kRootInode, "f", 0644, {});
    ASSERT_TRUE(made) << describe(made.error());
    file = made->attributes.inode;
    (*volume)->release(made->file);
    ASSERT_TRUE((*volume)->write(file, 0, std::as_bytes(std::span(text))));
    ASSERT_TRUE((*volume)->unmount());
  }
  {
    const auto store = meta::Store::open(*device, {.background = false});
    ASSERT_TRUE(store) << describe(store.error());
    const auto item = (*store)->get(key_of(file, Kind::kExtent));
    ASSERT_TRUE(item && *item);
    const std::uint64_t band = decode_extent(**item)->at.band.value;
    meta::Batch batch;
    batch.put(key_of(kVolumeOwner, Kind::kBandSummary, (std::uint64_t{1} << 32) + band),
              encode(BandSummaryRecord{}));
    ASSERT_TRUE((*store)->apply(batch));
    ASSERT_TRUE((*store)->close());
  }
  const auto volume = Volume::mount(*device, {.background = false});
  ASSERT_TRUE(volume) << describe(volume.error());
  ASSERT_TRUE((*volume)->lookup(kRootInode, "f"));
  std::string found(text.size(), '?');
  const auto length = (*volume)->read(file, 0, std::as_writable_bytes(std::span(found)));
  ASSERT_TRUE(length) << describe(length.error());
  EXPECT_EQ(found, text);
  EXPECT_TRUE((*volume)->unmount());
}

// What a mount does with one band of a volume that was not ended cleanly.
class BandRecoveryTest : public testing::Test {
 protected:
  static constexpr BandId kB1 = fsck::SampleVolume::kB1, kUnused = fsck::SampleVolume::kUnused;

  RecoveredBands recover(bool read_only = false) {
    sample_.commit();
    const auto found = recover_bands(faulty_, *sample_.store, bands_, read_only);
    EXPECT_TRUE(found) << describe(found.error());
    return found.value_or(RecoveredBands{});
  }
  data::BandView view(BandId band) { return bands_.view(band); }
  std::uint32_t pointer_of(BandId band) { return *sample_.device->write_pointer(band); }
  // By the tree, with the room.
  BandSummaryRecord summary_of(BandId band) {
    const auto value =
        sample_.store->get(key_of(kVolumeOwner, Kind::kBandSummary, band.value));
    return value && *value ? decode_band_summary(**value).value() : BandSummaryRecord{};
  }
  std::size_t appends_in(BandId band) {
    return sample_.store
        ->scan(key_of(band, Kind::kAppendRecord),
               key_of(band, Kind::kAppendRecord, meta::kMaxOffset), 100)
        ->size();
  }

  fsck::SampleVolume sample_;
  device::FaultyDevice faulty_{*sample_.device};
  data::BandTable bands_{sample_.device->geometry(), sample_.store->superblock().super_bands,
                         sample_.store->log_bands()};
};

TEST_F(BandRecoveryTest, BlocksThatWereNotRecordedAreRecordedAsDead) {
  sample_.append(kB1, 5);
  EXPECT_EQ(recover().lost_blocks, 5u);
  EXPECT_EQ(view(kB1).counters.appended, 13u + 5);
  EXPECT_EQ(view(kB1).counters.append_records, 3u + 1);
  EXPECT_EQ(summary_of(kB1).appended, 13u + 5);
  EXPECT_EQ(summary_of(kB1).append_records, 3u + 1);
  EXPECT_EQ(appends_in(kB1), 3u + 1);
}

TEST_F(BandRecoveryTest, AReadOnlyMountRecordsNothing) {
  sample_.append(kB1, 5);
  recover(true);
  EXPECT_EQ(view(kB1).counters.appended, 13u + 5);
  EXPECT_EQ(summary_of(kB1).appended, 13u);
  EXPECT_EQ(appends_in(kB1), 3u);
}

TEST_F(BandRecoveryTest, ABandThatHoldsNothingRecordedIsReset) {
  sample_.append(kUnused, 2);
  EXPECT_EQ(recover().reset, 1u);
  EXPECT_EQ(pointer_of(kUnused), 0u);
  EXPECT_EQ(view(kUnused).state, data::BandState::kFree);
}

TEST_F(BandRecoveryTest, AReadOnlyMountResetsNothing) {
  sample_.append(kUnused, 2);
  recover(true);
  EXPECT_EQ(pointer_of(kUnused), 2u);
}

// The crash came between the reset and the erasure of the logs.
TEST_F(BandRecoveryTest, LogsOfABandThatWasResetAreErased) {
  sample_.change_summary(kB1, [](BandSummaryRecord& summary) { summary.live = 0; });
  ASSERT_TRUE(sample_.device->reset(kB1));
  recover();
  EXPECT_EQ(appends_in(kB1), 0u);
  EXPECT_EQ(summary_of(kB1).appended, 0u);
  EXPECT_EQ(view(kB1).state, data::BandState::kFree);
}

TEST_F(BandRecoveryTest, ABandThatCannotBeResetIsSetAside) {
  sample_.append(kUnused, 2);
  faulty_.fail_nth(device::Call::kReset, 1, {Errc::kDeviceWrite});
  recover();
  EXPECT_EQ(view(kUnused).state, data::BandState::kBad);
}

TEST_F(BandRecoveryTest, ABandThatLacksBlocksOfFilesIsSetAsideWithWhatRemains) {
  sample_.device->place_write_pointer(kB1, 12);
  recover();
  EXPECT_EQ(view(kB1).state, data::BandState::kBad);
  EXPECT_EQ(view(kB1).counters.live, 8u);
}

TEST_F(BandRecoveryTest, ABandWhoseSummaryCannotBeIsSetAside) {
  sample_.change_summary(kB1, [](BandSummaryRecord& summary) { summary.appended = 65; });
  sample_.change_summary(fsck::SampleVolume::kB2, [](BandSummaryRecord& summary) {
    summary.live = summary.appended + 1;
  });
  recover();
  EXPECT_EQ(view(kB1).state, data::BandState::kBad);
  EXPECT_EQ(view(fsck::SampleVolume::kB2).state, data::BandState::kBad);
}

TEST_F(BandRecoveryTest, ABandThatTheDeviceLetsOnlyBeReadIsSetAsideWithItsData) {
  sample_.device->retire(kB1, device::BandCondition::kReadOnly);
  recover();
  EXPECT_EQ(view(kB1).state, data::BandState::kBad);
  EXPECT_EQ(view(kB1).counters.live, 8u);
}

TEST_F(BandRecoveryTest, LostRangesOfAnUnfinishedRepairAreForgotten) {
  const meta::Key key = key_of(kVolumeOwner, Kind::kLostRange, 1);
  sample_.put(key, encode(LostRangeRecord{key_of(kRootInode, Kind::kInode), std::nullopt}));
  sample_.commit();
  sample_.store.reset();
  const auto volume = Volume::mount(*sample_.device, {.background = false});
  ASSERT_TRUE(volume) << describe(volume.error());
  EXPECT_TRUE((*volume)->unmount());
  sample_.open();
  EXPECT_FALSE(sample_.store->get(key)->has_value());
}

// On a device without write pointers.
class PlainBandRecoveryTest : public testing::Test {
 protected:
  static constexpr BandId kB1 = fsck::SampleVolume::kB1;

  // Ends the session, and recovers the bands in the next one.
  void recover(bool ends_known, bool read_only = false) {
    sample_.store->set_data_ends_known(ends_known);
    ASSERT_TRUE(sample_.store->close());
    sample_.device->forget_write_pointers();
    sample_.open();
    bands_.emplace(sample_.device->geometry(), sample_.store->superblock().super_bands,
                   sample_.store->log_bands());
    const auto found = recover_bands(*sample_.device, *sample_.store, *bands_, read_only);
    ASSERT_TRUE(found) << describe(found.error());
    lost_ = found->lost_blocks;
  }

  fsck::SampleVolume sample_{{.keeps_write_pointers = false}};
  std::optional<data::BandTable> bands_;
  std::uint64_t lost_ = 0;
};

TEST_F(PlainBandRecoveryTest, BandsContinueWhereTheyEndedIfThatIsKnown) {
  recover(true);
  EXPECT_EQ(lost_, 0u);
  EXPECT_EQ(bands_->view(kB1).counters.appended, 13u);
  EXPECT_EQ(bands_->view(kB1).state, data::BandState::kOpen);
  EXPECT_EQ(sample_.device->write_pointer(kB1), 13u);
}

TEST_F(PlainBandRecoveryTest, AReadOnlyMountStatesNoEnd) {
  recover(true, true);
  EXPECT_EQ(bands_->view(kB1).counters.appended, 13u);
  EXPECT_EQ(sample_.device->write_pointer(kB1), 64u);
}

TEST_F(PlainBandRecoveryTest, BandsThatMayHaveBeenWrittenFurtherAreFull) {
  recover(false);
  EXPECT_EQ(lost_, 64u - 13 + 64 - 5 + 64 - 5);
  EXPECT_EQ(bands_->view(kB1).state, data::BandState::kFull);
  EXPECT_EQ(bands_->view(kB1).counters.live, 8u);
  EXPECT_EQ(bands_->view(fsck::SampleVolume::kUnused).state, data::BandState::kFree);
}

}  // namespace
}  // namespace lazyfs::fs
