#include "fs/space/band_history.h"

#include "test/fsck/sample_volume.h"

namespace lazyfs::fs {
namespace {

using fsck::SampleVolume;

TEST(BandHistoryTest, HasTheAppendsOfABandAndWhatDied) {
  SampleVolume volume;
  const auto history = history_of(*volume.store, SampleVolume::kB1);
  ASSERT_TRUE(history);
  const BandAppend first{InodeNo{6}, 0, 0, 8, 1}, second{InodeNo{6}, 8, 8, 1, 0};
  const BandAppend lost{InodeNo{0}, 0, 9, 4, 4};
  EXPECT_EQ(history->appends, (std::vector{first, second, lost}));
  EXPECT_EQ(history->dead, (std::vector<DeadBlocks>{{3, 1}, {9, 4}}));
}

TEST(BandHistoryTest, JoinsDeadRangesThatFollowOneAnother) {
  SampleVolume volume;
  const DeleteRecord died{InodeNo{6}, 8, 8, 1, 8};
  volume.put(key_of(SampleVolume::kB1, Kind::kDeleteRecord, 8), encode(died));
  volume.commit();
  const auto history = history_of(*volume.store, SampleVolume::kB1);
  ASSERT_TRUE(history);
  EXPECT_EQ(history->dead, (std::vector<DeadBlocks>{{3, 1}, {8, 5}}));
}

TEST(BandHistoryTest, RefusesADeathOfWhatWasNotAppended) {
  SampleVolume volume;
  const DeleteRecord died{InodeNo{6}, 40, 40, 1, 40};
  volume.put(key_of(SampleVolume::kB1, Kind::kDeleteRecord, 40), encode(died));
  volume.commit();
  const auto history = history_of(*volume.store, SampleVolume::kB1);
  ASSERT_FALSE(history);
  EXPECT_EQ(history.error(), Errc::kItemBad);
}

TEST(BandHistoryTest, HasWhatDiedInTheOrderOfTheBand) {
  SampleVolume volume;
  volume.put(key_of(SampleVolume::kB1, Kind::kAppendRecord, 13),
             encode(AppendRecord{InodeNo{6}, 9, 2}));
  volume.put(key_of(SampleVolume::kB1, Kind::kDeleteRecord, 14),
             encode(DeleteRecord{InodeNo{6}, 10, 14, 1, 13}));
  volume.commit();
  const auto history = history_of(*volume.store, SampleVolume::kB1);
  ASSERT_TRUE(history);
  EXPECT_EQ(history->dead, (std::vector<DeadBlocks>{{3, 1}, {9, 4}, {14, 1}}));
}

TEST(BandHistoryTest, RefusesDeathsPastTheEndOfAnAppend) {
  // The last append to B2 is of blocks 3 and 4.
  for (const DeleteRecord& died : {DeleteRecord{InodeNo{7}, 2, 5, 1, 3},
                                   DeleteRecord{InodeNo{7}, 1, 4, 2, 3},
                                   DeleteRecord{InodeNo{7}, 0, 3, 3, 3}}) {
    SampleVolume volume;
    volume.put(key_of(SampleVolume::kB2, Kind::kDeleteRecord, died.rba), encode(died));
    volume.commit();
    EXPECT_FALSE(history_of(*volume.store, SampleVolume::kB2)) << died.rba;
  }
}

TEST(BandHistoryTest, OfABandThatWasNeverWrittenIsEmpty) {
  SampleVolume volume;
  const auto history = history_of(*volume.store, SampleVolume::kUnused);
  ASSERT_TRUE(history);
  EXPECT_TRUE(history->appends.empty());
  EXPECT_TRUE(history->dead.empty());
}

}  // namespace
}  // namespace lazyfs::fs
