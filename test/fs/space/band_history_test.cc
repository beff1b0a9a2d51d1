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

TEST(BandHistoryTest, OfABandThatWasNeverWrittenIsEmpty) {
  SampleVolume volume;
  const auto history = history_of(*volume.store, SampleVolume::kUnused);
  ASSERT_TRUE(history);
  EXPECT_TRUE(history->appends.empty());
  EXPECT_TRUE(history->dead.empty());
}

}  // namespace
}  // namespace lazyfs::fs
