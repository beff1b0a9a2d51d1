// What a mount does before the first operation, where the volume's metadata is unusual.

#include <gtest/gtest.h>

#include <span>
#include <string>

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

}  // namespace
}  // namespace lazyfs::fs
