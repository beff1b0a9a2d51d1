// What a mount does before the first operation, where the volume's metadata is unusual.
#include "fs/volume/recovery.h"

#include <gtest/gtest.h>

#include "device/memory.h"
#include "fs/item/schema.h"
#include "fs/volume/volume.h"
#include "meta/store/store.h"
#include "mkfs/mkfs.h"

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

}  // namespace
}  // namespace lazyfs::fs
