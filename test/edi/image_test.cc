#include "edi/image.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "base/before_wait.h"
#include "edi/format1.h"
#include "edi/link.h"
#include "fixture.h"

namespace lazyfs::edi {
namespace {

using device::BandCondition;
using device::BandKind;
using device::Piece;

TEST_F(ImageTest, ReadsBackAppendedData) {
  for (std::uint32_t format : {0u, 1u}) {
    CreateOptions options = uniform(8, 16, format);
    options.overwrite = true;
    make(options);
    auto image = open_or_die();
    const auto one = blocks_of(2, 'a'), two = blocks_of(3, 'b');
    const Piece pieces[] = {one.span(), two.span()};
    ASSERT_TRUE(image->append({kBand, 0}, pieces));
    EXPECT_EQ(*image->write_pointer(kBand), 5u);
    AlignedBuffer read(5 * kBlockBytes);
    ASSERT_TRUE(image->read({kBand, 0}, read.span()));
    EXPECT_EQ(std::memcmp(read.data(), one.data(), one.size()), 0);
    EXPECT_EQ(std::memcmp(read.data() + one.size(), two.data(), two.size()), 0);
  }
}

TEST_F(ImageTest, AppendsMoreScatteredPiecesThanOneCallAccepts) {
  make(uniform(2, 4096));
  auto image = open_or_die();
  std::vector<AlignedBuffer> blocks;
  std::vector<Piece> pieces;
  for (int i = 0; i < 1500; ++i) {
    blocks.push_back(blocks_of(1, static_cast<unsigned char>(i % 251)));
    pieces.push_back(blocks.back().span());
  }
  ASSERT_TRUE(image->append({BandId{0}, 0}, pieces));
  AlignedBuffer read(1500 * kBlockBytes);
  ASSERT_TRUE(image->read({BandId{0}, 0}, read.span()));
  for (int i = 0; i < 1500; ++i) {
    ASSERT_EQ(read.data()[std::size_t(i) * kBlockBytes], std::byte(i % 251)) << i;
  }
}

TEST_F(ImageTest, KeepsFlushedWritePointersAndLosesOthersWhenOpenedAgain) {
  for (std::uint32_t format : {0u, 1u}) {
    CreateOptions options = uniform(2000, 8, format);
    options.overwrite = true;
    make(options);
    const auto block = blocks_of(1, 'x');
    for (std::uint32_t round = 0; round < 4; ++round) {
      auto image = open_or_die();
      for (std::uint32_t band : {0u, 507u, 508u, 1018u, 1019u, 1999u}) {
        EXPECT_EQ(*image->write_pointer(BandId{band}), round);
        ASSERT_TRUE(image->append({BandId{band}, round}, block.span()));
      }
      ASSERT_TRUE(image->flush());
      ASSERT_TRUE(image->append({kBand, 0}, block.span()));
    }
    EXPECT_EQ(*open_or_die()->write_pointer(kBand), 0u);
  }
}

TEST_F(ImageTest, FallsBackToTheOlderTableSlotWhenTheNewerOneIsDamaged) {
  make(uniform(8, 8));
  std::uint64_t table = 0;
  {
    auto image = open_or_die();
    table = image->layout().table_start;
    for (std::uint32_t rba = 0; rba < 2; ++rba) {
      ASSERT_TRUE(image->append({kBand, rba}, blocks_of(1, 'x').span()));
      ASSERT_TRUE(image->flush());
    }
  }
  EXPECT_EQ(*open_or_die()->write_pointer(kBand), 2u);
  std::vector<std::uint32_t> found;
  for (std::uint32_t slot = 0; slot < kTableSlots; ++slot) {
    flip(table + slot * kTableBlockBytes + 40);
    found.push_back(*open_or_die()->write_pointer(kBand));
    flip(table + slot * kTableBlockBytes + 40);
  }
  EXPECT_EQ(found[0] + found[1], 3u);
  for (std::uint32_t slot = 0; slot < kTableSlots; ++slot) flip(table + slot * kTableBlockBytes);
  EXPECT_EQ(open_error(), Errc::kEdiBadChecksum);
}

TEST_F(ImageTest, FlushesOfOtherBandsKeepTheOlderTableSlot) {
  make(uniform(600, 8));  // two blocks of the table
  constexpr BandId kOther{599};
  std::uint64_t table = 0;
  {
    auto image = open_or_die();
    table = image->layout().table_start;
    for (const BandAddress at : {BandAddress{kBand, 0}, {kOther, 0}, {kOther, 1}, {kOther, 2},
                                 {kBand, 1}}) {
      ASSERT_TRUE(image->append(at, blocks_of(1, 'x').span()));
      ASSERT_TRUE(image->flush());
    }
  }
  std::vector<std::uint32_t> found;
  for (std::uint32_t slot = 0; slot < kTableSlots; ++slot) {
    flip(table + slot * kTableBlockBytes + 40);
    found.push_back(*open_or_die({.read_only = true})->write_pointer(kBand));
    flip(table + slot * kTableBlockBytes + 40);
  }
  std::ranges::sort(found);
  EXPECT_EQ(found, (std::vector<std::uint32_t>{1, 2}));
}

TEST_F(ImageTest, ADiscardOfAResetBandFreesItsSpace) {
  make(uniform(4, 1024));
  auto image = open_or_die();
  ASSERT_TRUE(image->append({kBand, 0}, blocks_of(1024, 'x').span()));
  ASSERT_TRUE(image->flush());
  struct stat before, after;
  ASSERT_EQ(::stat(path().c_str(), &before), 0);
  ASSERT_TRUE(image->reset(kBand));
  AlignedBuffer read(kBlockBytes);
  EXPECT_EQ(image->read({kBand, 0}, read.span()).error(), Errc::kPastWritePointer);
  ASSERT_TRUE(image->flush());
  EXPECT_EQ(image->discard(kBand), 1024u * kBlockBytes);
  ASSERT_EQ(::stat(path().c_str(), &after), 0);
  EXPECT_LT(after.st_blocks, before.st_blocks);
  EXPECT_EQ(image->report(kBand)->condition, BandCondition::kEmpty);
  EXPECT_TRUE(image->append({kBand, 0}, read.span()));
}

TEST_F(ImageTest, SetsAWritePointerBackAndNeverForward) {
  make(uniform(4, 8));
  auto image = open_or_die();
  ASSERT_TRUE(image->append({kBand, 0}, blocks_of(6, 'x').span()));
  EXPECT_EQ(image->set_write_pointer(kBand, 7).error(), Errc::kPastWritePointer);
  ASSERT_TRUE(image->set_write_pointer(kBand, 2));
  ASSERT_TRUE(image->append({kBand, 2}, blocks_of(1, 'y').span()));
  AlignedBuffer read(3 * kBlockBytes);
  ASSERT_TRUE(image->read({kBand, 0}, read.span()));
  EXPECT_EQ(read.data()[0], std::byte{'x'});
  EXPECT_EQ(read.data()[2 * kBlockBytes], std::byte{'y'});
}

TEST_F(ImageTest, ShowsZonesConventionalAndLinkedBands) {
  make({.zones = {{4, 8}, {4, 16}}, .conventional = {1, 0}, .linked = {{3, 5}}});
  auto image = open_or_die();
  const auto& geometry = image->geometry();
  EXPECT_EQ(geometry.band_blocks, (std::vector<std::uint32_t>{8, 8, 8, 40, 0, 0, 16, 16}));
  EXPECT_EQ(geometry.band_kinds[1], BandKind::kConventional);
  EXPECT_EQ(geometry.band_kinds[2], BandKind::kShingled);
  EXPECT_EQ(geometry.super_bands, (std::array{BandId{2}, BandId{3}}));
  ASSERT_TRUE(image->append({BandId{3}, 0}, blocks_of(40, 'l').span()));
  ASSERT_TRUE(image->append({BandId{6}, 0}, blocks_of(16, 'm').span()));
  ASSERT_TRUE(image->append({BandId{1}, 5}, blocks_of(1, 'c').span()));
  ASSERT_TRUE(image->flush());
  image.reset();
  image = open_or_die();
  AlignedBuffer read(40 * kBlockBytes);
  ASSERT_TRUE(image->read({BandId{3}, 0}, read.span()));
  EXPECT_EQ(std::memcmp(read.data(), blocks_of(40, 'l').data(), read.size()), 0);
  EXPECT_EQ(image->read({BandId{4}, 0}, {}).error(), Errc::kBandOffline);
  EXPECT_EQ(image->report(BandId{4})->condition, BandCondition::kOffline);
  EXPECT_EQ(*image->write_pointer(BandId{1}), 8u);
  EXPECT_EQ(image->reset(BandId{1}).error(), Errc::kUnsupported);
}

TEST_F(ImageTest, LinksMayBeMadeInAnyOrder) {
  make({.zones = {{10, 8}}, .linked = {{8, 9}, {1, 2}}});
  auto image = open_or_die();
  EXPECT_EQ(image->geometry().blocks_of(BandId{1}), 16u);
  EXPECT_EQ(image->geometry().blocks_of(BandId{8}), 16u);
  ASSERT_TRUE(link_bands(image, BandId{3}, BandId{4}));
  EXPECT_EQ(image->geometry().blocks_of(BandId{3}), 16u);
}

TEST_F(ImageTest, LinksNoBandsOnBothSidesOfTheTable) {
  make(uniform(10, 8));
  auto image = open_or_die();
  ASSERT_EQ(image->layout().header.table_before, 5u);
  EXPECT_EQ(link_bands(image, BandId{4}, BandId{5}).error(), Errc::kBadGeometry);
  EXPECT_TRUE(link_bands(image, BandId{3}, BandId{4}));
  EXPECT_TRUE(link_bands(image, BandId{5}, BandId{6}));
}

// A write pointer of a band that is linked away could not be read again.
TEST_F(ImageTest, LinksNoBandThatHoldsData) {
  make(uniform(10, 8));
  auto image = open_or_die();
  ASSERT_TRUE(image->append({kBand, 0}, blocks_of(1, 'x').span()));
  EXPECT_EQ(link_bands(image, BandId{1}, kBand).error(), Errc::kBandNotEmpty);
  EXPECT_EQ(link_bands(image, kBand, BandId{3}).error(), Errc::kBandNotEmpty);
  EXPECT_TRUE(link_bands(image, BandId{3}, BandId{4}));
  EXPECT_EQ(*image->write_pointer(kBand), 1u) << "it was not flushed before";
}

TEST_F(ImageTest, CanBeMadeWithWritePointers) {
  CreateOptions options{.zones = {{3, 8}}, .conventional = {2}, .write_pointers = {8, 3, 0}};
  make(options);
  const auto image = open_or_die();
  EXPECT_EQ(*image->write_pointer(BandId{0}), 8u);
  EXPECT_EQ(*image->write_pointer(BandId{1}), 3u);
  auto read = blocks_of(3, 'x');
  ASSERT_TRUE(image->read({BandId{1}, 0}, read.span()));
  EXPECT_EQ(std::memcmp(read.data(), blocks_of(3, '\0').data(), read.size()), 0);
  ASSERT_TRUE(image->append({BandId{1}, 3}, blocks_of(1, 'a').span()));

  const std::string other = path("other.edi");
  options.write_pointers = {9, 0, 0};
  EXPECT_EQ(create(other, options).error(), Errc::kBadGeometry) << "past the band's end";
  options.write_pointers = {0, 0};
  EXPECT_EQ(create(other, options).error(), Errc::kBadGeometry) << "not one for each band";
  EXPECT_EQ(create(other, {.format = 0, .zones = {{2, 8}}, .write_pointers = {0, 0}}).error(),
            Errc::kBadGeometry);
  EXPECT_FALSE(std::filesystem::exists(other));
}

TEST_F(ImageTest, HasOneExclusiveUserAtATime) {
  make(uniform(4, 8));
  auto image = open_or_die();
  EXPECT_EQ(open_error(), Errc::kDeviceBusy);
  EXPECT_EQ(open_error({.read_only = true}), Errc::kDeviceBusy);
  EXPECT_NE(open_or_die({.read_only = true, .exclusive = false}), nullptr);
  CreateOptions again = uniform(4, 8);
  again.overwrite = true;
  EXPECT_EQ(create(path(), again).error(), Errc::kDeviceBusy);
  image.reset();
  EXPECT_NE(open_or_die(), nullptr);
}

TEST_F(ImageTest, IsClaimedFromItsCreationToItsUse) {
  auto made = create_claimed(path(), uniform(4, 8));
  ASSERT_TRUE(made);
  EXPECT_EQ(open_error(), Errc::kDeviceBusy);
  ASSERT_TRUE(overwrite(*made, uniform(5, 8)));
  EXPECT_EQ(open_error(), Errc::kDeviceBusy);
  const auto image = open_or_die({.held = &*made});
  EXPECT_EQ(image->geometry().band_count(), 5u);
}

TEST_F(ImageTest, RefusesChangesWhenOpenedForReading) {
  make(uniform(4, 8));
  auto image = open_or_die({.read_only = true});
  EXPECT_EQ(image->append({kBand, 0}, blocks_of(1, 'x').span()).error(), Errc::kDeviceReadOnly);
  EXPECT_EQ(image->reset(kBand).error(), Errc::kDeviceReadOnly);
  EXPECT_EQ(image->set_write_pointer(kBand, 0).error(), Errc::kDeviceReadOnly);
  EXPECT_TRUE(image->flush());
}

// What other threads do while an append is under way.
class BesideAnAppendTest : public ImageTest {
 protected:
  // Appends a block to kBand. `work` runs once before the file gets it.
  static Result<> append_beside(Image& image, std::function<void()> work) {
    const std::function<void()> once = [&] {
      if (const auto now = std::exchange(work, nullptr)) now();
    };
    const BeforeWait before_wait(once);
    return image.append({kBand, 0}, blocks_of(1, 'x').span());
  }
};

TEST_F(BesideAnAppendTest, AnotherOneToTheBandIsRefused) {
  make(uniform(4, 8));
  auto image = open_or_die();
  ASSERT_TRUE(append_beside(*image, [&] {
    EXPECT_EQ(image->append({kBand, 0}, blocks_of(1, 'y').span()).error(),
              Errc::kNotAtWritePointer);
    EXPECT_TRUE(image->append({BandId{1}, 0}, blocks_of(1, 'y').span()));
  }));
  EXPECT_EQ(*image->write_pointer(kBand), 1u);
}

TEST_F(BesideAnAppendTest, AResetMakesItVoid) {
  make(uniform(4, 8));
  auto image = open_or_die();
  const auto done = append_beside(*image, [&] { EXPECT_TRUE(image->reset(kBand)); });
  EXPECT_EQ(done.error(), Errc::kNotAtWritePointer);
  EXPECT_EQ(*image->write_pointer(kBand), 0u);
  EXPECT_TRUE(image->append({kBand, 0}, blocks_of(1, 'y').span()));
}

TEST_F(BesideAnAppendTest, NothingIsDiscarded) {
  make(uniform(4, 8));
  auto image = open_or_die();
  ASSERT_TRUE(append_beside(*image, [&] { EXPECT_EQ(image->discard(kBand), 0u); }));
}

// An earlier process may have ended between a write of the table and its barrier.
TEST_F(ImageTest, OpeningForWritingHasABarrier) {
  make(uniform(4, 8));
  const auto waits_of_opening = [this](bool read_only) {
    int waits = 0;
    const std::function<void()> count = [&waits] { ++waits; };
    const BeforeWait before_wait(count);
    open_or_die({.read_only = read_only});
    return waits;
  };
  EXPECT_EQ(waits_of_opening(false), waits_of_opening(true) + 1);
}

TEST_F(ImageTest, FlushesFromManyThreadsWhileOthersAppend) {
  make(uniform(8, 64));
  {
    auto image = open_or_die();
    std::vector<std::thread> threads;
    for (std::uint32_t band = 0; band < 8; ++band) {
      threads.emplace_back([&, band] {
        const auto block = blocks_of(1, static_cast<unsigned char>(band));
        for (std::uint32_t rba = 0; rba < 16; ++rba) {
          EXPECT_TRUE(image->append({BandId{band}, rba}, block.span()));
          EXPECT_TRUE(image->flush());
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
  auto image = open_or_die();
  for (std::uint32_t band = 0; band < 8; ++band) EXPECT_EQ(*image->write_pointer({band}), 16u);
}

}  // namespace
}  // namespace lazyfs::edi
