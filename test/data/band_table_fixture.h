// A band table of 20 short bands, for the tests of what it accounts, how old its data is, and which
// bands it chooses.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "data/band_table.h"

namespace lazyfs::data {

inline constexpr std::uint32_t kBandBlocks = 10;
inline constexpr std::array kSuperBands{BandId{0}, BandId{1}};
inline constexpr std::uint32_t kMaxOpen = 8;

inline device::Geometry geometry_of(std::uint32_t bands) {
  device::Geometry geometry;
  geometry.band_blocks.assign(bands, kBandBlocks);
  geometry.band_kinds.assign(bands, device::BandKind::kShingled);
  return geometry;
}

// Bands 0 and 1 hold superblocks, the one in the middle the log, all others file data.
class BandTableTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBands = 20;
  static constexpr std::array kLogBands{BandId{kBands / 2}};
  static constexpr BandId kFirst{2}, kLast{kBands - 1};

  ~BandTableTest() override { EXPECT_EQ(table.check_invariants(), ""); }

  // A lease with one append of `blocks`, all live.
  void append(BandId band, std::uint32_t blocks, Stream stream = Stream::kSmall) {
    ASSERT_TRUE(table.lease(band, stream));
    table.account_append(band, blocks, blocks, 1);
    table.end_lease(band, false, false);
  }
  void fill_all_but(std::uint32_t free_bands) {
    while (table.space().free_bands > free_bands) {
      append(*table.choices(Stream::kCollector, kMaxOpen).free, kBandBlocks);
    }
  }
  // One other band is free afterwards.
  BandId begin_last_but_one(Stream stream) {
    fill_all_but(2);
    const BandId band = table.choices(stream, kMaxOpen).free.value();
    append(band, 1, stream);
    return band;
  }
  // Appends to the rest of the band, and resets it when all of its data is dead.
  void fill_and_reset(BandId band, Stream stream, bool good = true) {
    append(band, kBandBlocks - static_cast<std::uint32_t>(table.view(band).counters.appended),
           stream);
    table.account_death(band, kBandBlocks, 1);
    ASSERT_EQ(empty_bands(), Numbers{band.value});
    ASSERT_TRUE(table.begin_reset(band));
    table.finish_reset(band, good);
  }
  // Appends that many bands of data that is not rewritten.
  void age_by(std::uint32_t bands) {
    const BandId band{kLast.value - 1};
    for (std::uint32_t i = 0; i < bands; ++i) fill_and_reset(band, Stream::kLarge);
  }
  using Numbers = std::vector<std::uint32_t>;
  std::vector<std::uint32_t> empty_bands() {
    std::vector<std::uint32_t> numbers;
    for (const BandId band : table.empty_bands()) numbers.push_back(band.value);
    return numbers;
  }

  BandTable table{geometry_of(kBands), kSuperBands, kLogBands};
};

}  // namespace lazyfs::data
