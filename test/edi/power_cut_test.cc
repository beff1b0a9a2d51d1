// A power cut during a flush: any subset of its sectors may have reached the disk.
#include <fstream>
#include <random>

#include "edi/format1.h"
#include "fixture.h"
#include "test/support/result_printer.h"
#include "test/support/seed.h"

namespace lazyfs::edi {
namespace {

using device::Piece;

constexpr std::uint32_t kBands = 1100;  // three blocks of the table
constexpr std::uint32_t kCutBandBlocks = 2;
constexpr std::size_t kSector = 512;

class ImagePowerCutTest : public ImageTest, public testing::WithParamInterface<std::uint32_t> {
 protected:
  using Bytes = std::vector<char>;
  using Pointers = std::vector<std::uint32_t>;

  // The emulator's metadata: the table of write pointers.
  void find_table() {
    const auto image = open_or_die();
    at_ = static_cast<std::streamoff>(image->layout().table_start);
    length_ = GetParam() == 0 ? image->layout().band_starts[0] : table_bytes(kBands);
  }
  Bytes snapshot() const {
    Bytes bytes(length_);
    std::ifstream(path(), std::ios::binary).seekg(at_).read(bytes.data(), std::ssize(bytes));
    return bytes;
  }
  void restore(const Bytes& bytes) const {
    std::fstream(path(), std::ios::binary | std::ios::in | std::ios::out)
        .seekp(at_)
        .write(bytes.data(), std::ssize(bytes));
  }
  // Takes each sector from `before` or from `after`.
  Bytes mixed(const Bytes& before, const Bytes& after, unsigned percent_new) {
    Bytes bytes = before;
    for (std::size_t at = 0; at < bytes.size(); at += kSector) {
      if (random_() % 100 < percent_new) std::copy_n(&after[at], kSector, &bytes[at]);
    }
    return bytes;
  }
  static Pointers pointers(Image& image) {
    Pointers all;
    for (std::uint32_t i = 0; i < kBands; ++i) all.push_back(*image.write_pointer(BandId{i}));
    return all;
  }
  // Appends to many bands, one letter in each round, and resets some full bands.
  void work(Image& image, unsigned char letter) {
    const auto one = blocks_of(1, letter);
    for (int i = 0; i < 60; ++i) {
      const BandId band{static_cast<std::uint32_t>(random_() % kBands)};
      const std::uint32_t pointer = *image.write_pointer(band);
      if (pointer == kCutBandBlocks) {
        ASSERT_EQ(image.reset(band), ok());
      } else {
        ASSERT_EQ(image.append({band, pointer}, Piece(one.span())), ok());
      }
    }
  }

  std::mt19937_64 random_{test_seed()};
  std::streamoff at_ = 0;
  std::size_t length_ = 0;
};

TEST_P(ImagePowerCutTest, LeavesEveryWritePointerAtItsOldOrNewPosition) {
  SCOPED_TRACE(seed_trace());
  make(uniform(kBands, kCutBandBlocks, GetParam()));
  find_table();
  for (unsigned round = 0; round < 8; ++round) {
    Pointers old_pointers, new_pointers;
    Bytes before, after;
    {
      auto image = open_or_die();
      old_pointers = pointers(*image);
      work(*image, static_cast<unsigned char>('a' + round));
      before = snapshot();
      ASSERT_EQ(image->flush(), ok());
      new_pointers = pointers(*image);
      after = snapshot();
    }
    for (const unsigned percent_new : {0u, 3u, 50u, 97u, 100u}) {
      restore(mixed(before, after, percent_new));
      auto image = open_or_die();
      ASSERT_NE(image, nullptr);
      const Pointers found = pointers(*image);
      for (std::uint32_t i = 0; i < kBands; ++i) {
        ASSERT_TRUE(found[i] == old_pointers[i] || found[i] == new_pointers[i])
            << "band " << i << " at " << found[i] << ", was at " << old_pointers[i]
            << ", flushed at " << new_pointers[i] << ", " << percent_new << " % new";
      }
    }
  }
}

TEST_P(ImagePowerCutTest, WorksAfterAnyOutcome) {
  SCOPED_TRACE(seed_trace());
  make(uniform(kBands, kCutBandBlocks, GetParam()));
  find_table();
  for (unsigned round = 0; round < 8; ++round) {
    Bytes before;
    {
      auto image = open_or_die();
      ASSERT_NE(image, nullptr);
      work(*image, 'x');
      ASSERT_EQ(image->flush(), ok());
      const Pointers flushed = pointers(*image);
      image.reset();
      image = open_or_die();
      ASSERT_EQ(pointers(*image), flushed);
      work(*image, 'y');
      before = snapshot();
      ASSERT_EQ(image->flush(), ok());
    }
    restore(mixed(before, snapshot(), 50));
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ImagePowerCutTest, testing::Values(0u, 1u));

}  // namespace
}  // namespace lazyfs::edi
