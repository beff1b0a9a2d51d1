// What mkfs recognises of a lazyfs when nearly everything of it is lost.
#include "tools/traces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/buffer.h"
#include "edi/create.h"
#include "edi/format1.h"
#include "edi/image.h"
#include "meta/log/superblock_format.h"
#include "mkfs/mkfs.h"
#include "plain/identity_format.h"
#include "test/support/test_folder.h"
#include "tools/contents.h"

namespace lazyfs {
namespace {

constexpr std::uint64_t kMib = 1 << 20;

class TracesTest : public ::testing::Test {
 protected:
  std::string path() const { return folder_ / "disk"; }
  // A file of zeros.
  void make_empty(std::uint64_t bytes) {
    std::ofstream file(path(), std::ios::trunc);
    file.close();
    std::filesystem::resize_file(path(), bytes);
  }
  void make_image(std::uint64_t bytes, std::uint32_t band_blocks, std::uint32_t format = 1) {
    auto options = *edi::fill(bytes, band_blocks);
    options.format = format;
    options.overwrite = true;
    ASSERT_TRUE(edi::create(path(), options));
    const auto device = edi::open(path());
    ASSERT_TRUE(device && mkfs::make_filesystem(**device, {}));
  }
  void put(std::uint64_t at, std::span<const std::byte> bytes) {
    overwrite_file(path(), at, bytes);
  }
  void wipe(std::uint64_t at, std::uint64_t length) {
    put(at, AlignedBuffer::zeroed(length).span());
  }
  std::string found() { return find_lazyfs_traces(path()).value_or("nothing"); }

  const TestFolder folder_;
};

AlignedBuffer superblock_record() {
  AlignedBuffer block(kBlockBytes);
  meta::encode(meta::Superblock{.sequence = 1}, block.span().first<kBlockBytes>());
  return block;
}

TEST_F(TracesTest, NothingIsFoundInZerosAndInOtherData) {
  make_empty(64 * kMib);
  EXPECT_EQ(found(), "nothing");
  EXPECT_EQ(find_contents(path()), std::nullopt);
  AlignedBuffer noise(kBlockBytes);
  std::ranges::fill(noise.span(), std::byte{0x5A});
  for (const std::uint64_t at : superblock_places(64 * kMib)) put(at, noise.span());
  EXPECT_EQ(found(), "nothing");
  make_empty(0);
  EXPECT_EQ(found(), "nothing");
  EXPECT_EQ(find_lazyfs_traces(folder_ / "missing"), std::nullopt);
}

TEST_F(TracesTest, DataOfAKindThatIsNotKnownIsContents) {
  make_empty(kMib);
  put(kMib - 1, std::array{std::byte{1}});
  EXPECT_EQ(find_contents(path()), "data of a kind that is not known");
}

TEST_F(TracesTest, PartitionTableIsContents) {
  make_empty(kMib);
  auto table = AlignedBuffer::zeroed(512);
  table.span()[446 + 4] = std::byte{0x83};
  table.span()[446 + 8] = std::byte{8};
  table.span()[446 + 13] = std::byte{1};
  table.span()[510] = std::byte{0x55};
  table.span()[511] = std::byte{0xAA};
  put(0, table.span());
  EXPECT_EQ(find_contents(path()), "a dos partition table");
}

TEST_F(TracesTest, EitherHeaderOfAnImageIsFound) {
  make_image(64 * kMib, 128);
  EXPECT_EQ(found(), "header of an EDI at byte 0");
  wipe(0, 4);
  EXPECT_EQ(found(), "header of an EDI at byte 65536");
}

TEST_F(TracesTest, AnImageThatNobodyHasUsedIsNotSurelyALazyfs) {
  auto options = *edi::fill(64 * kMib, 128);
  ASSERT_TRUE(edi::create(path(), options));
  EXPECT_EQ(find_contents(path()),
            "a lazyfs or an Emulated Disk Image, perhaps a damaged one (header of an EDI at byte "
            "0)");
}

TEST_F(TracesTest, SuperblocksOfAnImageWithoutHeadersAreFound) {
  for (const std::uint32_t format : {0u, 1u}) {
    for (const std::uint32_t band_blocks : {16u, 128u, 256u, 512u}) {
      SCOPED_TRACE(band_blocks);
      make_image(64 * kMib, band_blocks, format);
      const auto starts = (*edi::open_image(path()))->layout().band_starts;
      wipe(0, 2 * edi::kHeaderAreaBytes);
      if (starts[0] < 2 * edi::kHeaderAreaBytes) continue;  // of format 0, wiped too
      EXPECT_EQ(found(), "superblock at byte " + std::to_string(starts[0]));
      wipe(starts[0], kBlockBytes);
      EXPECT_EQ(found(), "superblock at byte " + std::to_string(starts[1]));
    }
  }
}

TEST_F(TracesTest, AWritePointerTableIsFoundWhenTheFirstMiBIsLost) {
  make_image(64 * kMib, 128);
  const auto table = (*edi::open_image(path()))->layout().table_start;
  wipe(0, 2 * kMib);
  EXPECT_EQ(found(), "write pointer table of an EDI at byte " + std::to_string(table));
  EXPECT_TRUE(find_contents(path()));
}

TEST_F(TracesTest, EitherIdentificationBlockIsFoundAlsoADamagedOne) {
  constexpr std::uint64_t kBytes = 64 * kMib + 12345;
  plain::Identity identity{.volume_bytes = kBytes, .band_bytes = kMib, .band_count = 62,
                           .super_bands = {BandId{0}, BandId{61}}, .generation = 1};
  AlignedBuffer block(kBlockBytes);
  plain::encode(identity, block.span().first<kBlockBytes>());
  for (const std::uint64_t at : {plain::kIdentityAt, plain::copy_at(kBytes)}) {
    make_empty(kBytes);
    put(at, block.span());
    EXPECT_EQ(found(), "identification block at byte " + std::to_string(at));
    put(at + 200, block.span().first(1));
    EXPECT_EQ(found(), "identification block at byte " + std::to_string(at));
  }
}

TEST_F(TracesTest, SuperBandsOfPlainAndZonedDevicesAreFoundAlsoDamagedOnes) {
  constexpr std::uint64_t kBytes = 64 * kMib + 12345;
  for (std::uint64_t band = 65536; band <= 16 * kMib; band *= 2) {
    for (const std::uint64_t at :
         {std::uint64_t{0}, band, kMib, kMib + band,
          kMib + (plain::bands_in(kBytes, band) - 1) * band}) {
      make_empty(kBytes);
      put(at, superblock_record().span());
      put(at + 100, std::array{std::byte{0xFF}});
      EXPECT_EQ(found(), "superblock at byte " + std::to_string(at));
    }
  }
}

TEST_F(TracesTest, PlacesOnALargeDiskAreFew) {
  EXPECT_LT(superblock_places(std::uint64_t{8} << 40).size(), 200u);
  EXPECT_TRUE(superblock_places(1000).empty());
}

}  // namespace
}  // namespace lazyfs
