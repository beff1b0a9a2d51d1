// Growing an image, of either format.
#include "edi/grow.h"

#include <set>
#include <thread>

#include "edi/copies.h"
#include "edi/format1.h"
#include "fixture.h"
#include "test/support/growth_cut.h"
#include "test/support/result_printer.h"
#include "test/support/seed.h"

namespace lazyfs::edi {
namespace {

using device::Piece;

constexpr std::uint32_t kSmallBands = 500, kLargeBands = 1100;  // one and three blocks of the table
constexpr std::uint32_t kBandBlocks = 2;
constexpr std::uint64_t kBandBytes = std::uint64_t{kBandBlocks} * kBlockBytes;

class ImageGrowTest : public ImageTest, public testing::WithParamInterface<std::uint32_t> {
 protected:
  static CreateOptions bands(std::uint32_t count) {
    return uniform(count, kBandBlocks, GetParam());
  }
  // Of an image that was made with kSmallBands and grown to `count`.
  static std::uint64_t bytes_of(std::uint32_t count) {
    return *image_bytes(bands(kSmallBands)) + (count - kSmallBands) * kBandBytes;
  }
  // Band i has i % 3 blocks, of a letter of its own.
  void fill(Image& image) {
    for (std::uint32_t i = 0; i < kSmallBands; ++i) {
      if (i % 3 == 0) continue;
      const auto block = blocks_of(i % 3, letter_of(i));
      ASSERT_EQ(image.append({BandId{i}, 0}, Piece(block.span())), ok());
    }
    ASSERT_EQ(image.flush(), ok());
  }
  static unsigned char letter_of(std::uint32_t band) {
    return static_cast<unsigned char>('a' + band % 26);
  }
  static void expect_filled(Image& image) {
    for (std::uint32_t i = 0; i < kSmallBands; ++i) {
      ASSERT_EQ(image.write_pointer(BandId{i}), i % 3) << i;
      AlignedBuffer found((i % 3) * kBlockBytes);
      ASSERT_EQ(image.read({BandId{i}, 0}, found.span()), ok());
      ASSERT_TRUE(std::ranges::all_of(found.span(), [&](std::byte b) {
        return b == static_cast<std::byte>(letter_of(i));
      })) << i;
    }
  }
  static void expect_empty(Image& image, std::uint32_t first) {
    for (std::uint32_t i = first; i < image.geometry().band_count(); ++i) {
      ASSERT_EQ(image.write_pointer(BandId{i}), 0u) << i;
    }
  }
};

TEST_P(ImageGrowTest, AddsBandsWhileItIsUsed) {
  make(bands(kSmallBands));
  {
    auto image = open_or_die();
    fill(*image);
    const device::Geometry& before = image->geometry();
    ASSERT_EQ(image->grow(bytes_of(kLargeBands)), ok());
    EXPECT_EQ(before.band_count(), kSmallBands);
    EXPECT_EQ(image->geometry().band_count(), kLargeBands);
    expect_empty(*image, kSmallBands);
    const auto block = blocks_of(1, '!');
    ASSERT_EQ(image->append({BandId{0}, 0}, Piece(block.span())), ok());
    ASSERT_EQ(image->append({BandId{kLargeBands - 1}, 0}, Piece(block.span())), ok());
    ASSERT_EQ(image->reset(BandId{0}), ok());
    ASSERT_EQ(image->flush(), ok());
  }
  auto image = open_or_die();
  ASSERT_EQ(image->geometry().band_count(), kLargeBands);
  EXPECT_EQ(image->write_pointer(BandId{kLargeBands - 1}), 1u);
  EXPECT_EQ(damaged_headers(*image), std::vector<std::string>());
  EXPECT_EQ(older_headers(*image), std::vector<std::string>());
  EXPECT_EQ(*damaged_slots(*image), std::vector<std::string>());
  expect_filled(*image);
}

TEST_P(ImageGrowTest, RefusesWhatAddsNoBand) {
  make(bands(kSmallBands));
  auto image = open_or_die();
  const std::uint64_t size = bytes_of(kSmallBands);
  EXPECT_EQ(image->grow(0), fail(Errc::kGrowNoRoom));
  EXPECT_EQ(image->grow(size - 1), fail(Errc::kGrowSmaller));
  EXPECT_EQ(image->grow(size + kBandBytes - 1), fail(Errc::kGrowNoRoom));
  EXPECT_EQ(image->grow(size + kBandBytes), ok());
  EXPECT_EQ(image->geometry().band_count(), kSmallBands + 1);
  image.reset();
  EXPECT_EQ(open_or_die({.read_only = true})->grow(0), fail(Errc::kDeviceReadOnly));
}

TEST_P(ImageGrowTest, GrowsUntilItsTableReachesTheNextBand) {
  const std::uint32_t most = GetParam() == 0 ? (65536 - 20) / 4 : 8 * kPointersPerBlock;
  make(bands(kSmallBands));
  auto image = open_or_die();
  fill(*image);
  ASSERT_EQ(image->grow(bytes_of(kSmallBands) + 20'000 * kBandBytes), ok());
  EXPECT_EQ(image->geometry().band_count(), most);
  EXPECT_EQ(image->grow(0), fail(Errc::kEdiTableFull));
  image.reset();
  image = open_or_die();
  EXPECT_EQ(image->geometry().band_count(), most);
  expect_filled(*image);
  expect_empty(*image, kSmallBands);
}

TEST_P(ImageGrowTest, GrowsBesideAppendsAndFlushes) {
  make(bands(kSmallBands));
  auto image = open_or_die();
  std::thread writer([&] {
    const auto block = blocks_of(1, 'w');
    for (std::uint32_t i = 0; i < kSmallBands; ++i) {
      EXPECT_EQ(image->append({BandId{i}, 0}, Piece(block.span())), ok());
      if (i % 10 == 0) {
        EXPECT_EQ(image->flush(), ok());
      }
    }
  });
  for (std::uint32_t count = kSmallBands + 50; count <= kLargeBands; count += 50) {
    EXPECT_EQ(image->grow(bytes_of(count)), ok());
  }
  writer.join();
  ASSERT_EQ(image->flush(), ok());
  image.reset();
  image = open_or_die();
  EXPECT_EQ(image->geometry().band_count(), kLargeBands);
  for (std::uint32_t i = 0; i < kSmallBands; ++i) EXPECT_EQ(image->write_pointer(BandId{i}), 1u);
  expect_empty(*image, kSmallBands);
}

// After any prefix of the writes, with any part of the next one, the image has its earlier bands or
// all of the new ones, and each band holds what it held. Growing again completes it.
TEST_P(ImageGrowTest, IsGrownOrNotAfterAPowerCutAtAnyWrite) {
  SCOPED_TRACE(seed_trace());
  std::mt19937_64 random(test_seed());
  std::set<std::uint32_t> outcomes;
  for (const bool is_damaged : {false, true}) {
    if (is_damaged && GetParam() == 0) continue;  // it has one header only
    for (std::size_t whole = 0; whole <= 3; ++whole) {
      for (const unsigned percent : {0u, 3u, 50u, 97u}) {
        SCOPED_TRACE(testing::Message() << whole << " steps, then " << percent << " %");
        make_again(bands(kSmallBands));
        fill(*open_or_die());
        if (is_damaged) flip(48);  // in the first copy of the header
        std::filesystem::resize_file(path(), bytes_of(kLargeBands));
        {
          const auto image = open_or_die();
          const auto growth =
              plan_growth(image->layout(), image->backing(), bytes_of(kLargeBands));
          ASSERT_TRUE(growth);
          ASSERT_EQ(growth->steps.size(), GetParam() == 0 ? 2u : 3u);
          write_cut_growth(path(), growth->steps, whole, percent, random);
        }
        const auto image = open_or_die();
        ASSERT_NE(image, nullptr);
        outcomes.insert(image->geometry().band_count());
        expect_filled(*image);
        expect_empty(*image, kSmallBands);
        const Result<> again = image->grow(0);
        EXPECT_TRUE(again || again.error() == Errc::kGrowNoRoom);
        EXPECT_EQ(image->geometry().band_count(), kLargeBands);
        expect_filled(*image);
      }
    }
  }
  EXPECT_EQ(outcomes, (std::set{kSmallBands, kLargeBands}));
}

using ImageHeaderGrowTest = ImageTest;

// The writes of a header of several sectors may be torn; the other copy must be intact then.
TEST_F(ImageHeaderGrowTest, KeepsAnIntactCopyBesideADamagedOne) {
  SCOPED_TRACE(seed_trace());
  std::mt19937_64 random(test_seed());
  const CreateOptions options{.zones = std::vector<Zone>(600, {1, kBandBlocks})};
  const std::uint64_t size = *image_bytes(options) + kBandBytes;
  for (std::size_t whole = 0; whole <= 2; ++whole) {
    for (int round = 0; round < 10; ++round) {
      SCOPED_TRACE(testing::Message() << whole << " steps, then half of the sectors");
      make_again(options);
      flip(48);  // in the first copy
      std::filesystem::resize_file(path(), size);
      {
        const auto image = open_or_die();
        const auto growth = plan_growth(image->layout(), image->backing(), size);
        ASSERT_TRUE(growth);
        write_cut_growth(path(), growth->steps, whole, 50, random);
      }
      const auto image = open_or_die();
      ASSERT_NE(image, nullptr);
      EXPECT_GE(image->geometry().band_count(), whole == 0 ? 600u : 601u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ImageGrowTest, testing::Values(0u, 1u));

}  // namespace
}  // namespace lazyfs::edi
