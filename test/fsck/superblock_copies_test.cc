// One of the two bands of superblocks is damaged: the volume opens by the other one, the damage is
// reported, and the next opening for writing repairs it.
#include <gtest/gtest.h>

#include "test/fsck/sample_volume.h"
#include "meta/log/restore_superblock.h"

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

}  // namespace
}  // namespace lazyfs::fsck
