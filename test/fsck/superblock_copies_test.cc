// One of the two bands of superblocks is damaged: the volume opens by the other one, the damage is
// reported, and the next opening for writing repairs it. The damaged header of a log band is
// reported too.
#include <gtest/gtest.h>

#include <algorithm>

#include "meta/log/damaged_headers.h"
#include "meta/log/restore_superblock.h"
#include "test/fsck/sample_volume.h"

namespace lazyfs::fsck {
namespace {

TEST(SuperblockCopiesTest, ADamagedOneIsNamedUntilTheNextOpeningForWriting) {
  for (const BandId band : {BandId{0}, BandId{1}}) {
    SampleVolume volume;
    ASSERT_TRUE(volume.store->close());
    volume.store.reset();
    EXPECT_EQ(*meta::damaged_superblocks(*volume.device), std::vector<BandId>{});
    volume.device->flip({band, *volume.device->write_pointer(band) - 1}, 4711);
    EXPECT_EQ(*meta::damaged_superblocks(*volume.device), std::vector{band});
    volume.open();
    EXPECT_EQ(*meta::damaged_superblocks(*volume.device), std::vector<BandId>{});
  }
}

// The other band's record would list bands of the log that the newest one has given back.
TEST(SuperblockCopiesTest, AnOlderOneIsNamed) {
  SampleVolume volume;
  ASSERT_TRUE(volume.store->close());
  volume.store.reset();
  const auto end = *volume.device->write_pointer(BandId{1});
  ASSERT_GT(end, 1u);  // the record that began the session comes first
  ASSERT_TRUE(volume.device->set_write_pointer(BandId{1}, end - 1));
  EXPECT_EQ(*meta::damaged_superblocks(*volume.device), std::vector{BandId{1}});
  volume.open();
  EXPECT_EQ(*meta::damaged_superblocks(*volume.device), std::vector<BandId>{});
}

TEST(DamagedHeadersTest, AreNamedUntilTheLogHasEmptiedTheBand) {
  SampleVolume volume;
  ASSERT_TRUE(volume.store->close());
  volume.store.reset();
  EXPECT_EQ(*meta::damaged_headers(*volume.device, {}), std::vector<BandId>{});
  const auto log_bands = meta::read_superblock(*volume.device)->log_bands;
  const auto band = std::ranges::find_if(
      log_bands, [&](BandId log_band) { return *volume.device->write_pointer(log_band) > 0; });
  ASSERT_NE(band, log_bands.end());
  volume.device->flip({*band, 0}, 4711);
  EXPECT_EQ(*meta::damaged_headers(*volume.device, {}), std::vector{*band});
  volume.open();
  for (std::uint32_t i = 0; i < 500; ++i) {
    volume.put_text(volume.name_key(1, "none"), std::string(100, static_cast<char>('a' + i % 26)));
    volume.commit();
  }
  EXPECT_EQ(*meta::damaged_headers(*volume.device, {}), std::vector<BandId>{});
}

// Of a cold band the log does not need the header, but the rebuilding of a superblock does.
TEST(DamagedHeadersTest, ThoseOfOtherBandsWithLiveNodesAreNamed) {
  SampleVolume volume;
  ASSERT_TRUE(volume.store->close());
  volume.store.reset();
  const std::vector live{SampleVolume::kB1};  // it has no header
  EXPECT_EQ(*meta::damaged_headers(*volume.device, live), live);
}

}  // namespace
}  // namespace lazyfs::fsck
