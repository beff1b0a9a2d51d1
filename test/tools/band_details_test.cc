#include "tools/band_details.h"

#include "test/fsck/sample_volume.h"

namespace lazyfs::tools {
namespace {

using fsck::SampleVolume;

TEST(BandDetailsTest, HasHistoriesAndNames) {
  SampleVolume volume;
  const auto details = band_details_of(*volume.store, {SampleVolume::kB1, SampleVolume::kUnused});
  EXPECT_TRUE(details.is_complete());
  EXPECT_EQ(details.histories.at(SampleVolume::kB1).appends.size(), 3u);
  EXPECT_TRUE(details.histories.at(SampleVolume::kUnused).appends.empty());
  EXPECT_TRUE(details.paths.contains(InodeNo{6}));
}

TEST(BandDetailsTest, DamageToOneLogLeavesTheOtherBands) {
  SampleVolume volume;
  const fs::DeleteRecord died{InodeNo{6}, 40, 40, 1, 40};
  volume.put(key_of(SampleVolume::kB1, fs::Kind::kDeleteRecord, 40), encode(died));
  volume.commit();
  const auto details = band_details_of(*volume.store, {SampleVolume::kB1, SampleVolume::kUnused});
  EXPECT_FALSE(details.is_complete());
  EXPECT_EQ(details.unreadable, (std::map{std::pair{SampleVolume::kB1, Errc::kItemBad}}));
  EXPECT_FALSE(details.histories.contains(SampleVolume::kB1));
  EXPECT_TRUE(details.histories.contains(SampleVolume::kUnused));
}

TEST(BandDetailsTest, DamageToADirectoryLeavesTheHistories) {
  SampleVolume volume;
  volume.put_text(key_of(InodeNo{1}, fs::Kind::kDentryName, 1), "no entry");
  volume.commit();
  const auto details = band_details_of(*volume.store, {SampleVolume::kB1});
  EXPECT_FALSE(details.is_complete());
  EXPECT_EQ(details.paths_error, Errc::kItemBad);
  EXPECT_EQ(details.histories.at(SampleVolume::kB1).appends.size(), 3u);
}

}  // namespace
}  // namespace lazyfs::tools
