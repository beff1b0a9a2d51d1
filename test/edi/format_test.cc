// The bytes on disk, made by hand from the tables of docs/format.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "base/buffer.h"
#include "base/crc32c.h"
#include "base/endian.h"
#include "edi/format0.h"
#include "edi/format1.h"
#include "test/support/result_printer.h"
#include "test/support/seed.h"

namespace lazyfs::edi {
namespace {

// "00 ff" and the like.
std::vector<std::byte> bytes_of(const std::string& hex) {
  std::vector<std::byte> bytes;
  std::istringstream in(hex);
  for (unsigned value = 0; in >> std::hex >> value;) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

const std::string kGolden0 = "00 10 5d 0e 00 00 00 00 00 10 00 00 2c 01 00 00 40 00 00 00";

const std::string kGolden1 =
    "00 10 5d 0e 01 00 00 00 24 b7 6e 01 60 00 00 00 03 00 00 00 00 00 00 00 "  // to the sequence
    "a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 aa ab ac ad ae af "                          // UUID
    "00 10 00 00 08 00 00 00 05 00 00 00 02 00 00 00 01 00 00 00 01 00 00 00 "  // to the counts
    "04 00 00 00 08 00 00 00 04 00 00 00 10 00 00 00 "                          // zones
    "00 00 00 00 01 00 00 00 05 00 00 00 06 00 00 00";  // conventional bands, link

const std::string kGoldenTable =
    "01 10 5d 0e 02 00 00 00 09 00 00 00 00 00 00 00 "  // to the sequence
    "a0 a1 a2 a3 a4 a5 a6 a7 13 7d 10 38 00 00 00 00 "  // image, checksum
    "07 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 45 23 01 00 00 00 00 00";

Header golden_header1() {
  Header header{.version = 1, .sequence = 3, .block_bytes = 4096, .table_before = 5};
  for (unsigned i = 0; i < 16; ++i) header.uuid[i] = static_cast<std::byte>(0xA0 + i);
  header.zones = {{4, 8}, {4, 16}};
  header.conventional = {{0, 1}};
  header.links = {{5, 6}};
  return header;
}

class Format1Test : public testing::Test {
 protected:
  using Area = std::span<std::byte, kHeaderAreaBytes>;
  using Block = std::span<std::byte, kTableBlockBytes>;
  Area area() { return area_.span().first<kHeaderAreaBytes>(); }
  Block block() { return block_.span().first<kTableBlockBytes>(); }
  Result<std::uint64_t> decode_block(std::uint32_t index = 2) {
    pointers_.assign(3, 0);
    return decode_table_block(block(), index, image_id(golden_header1().uuid), pointers_);
  }

  AlignedBuffer area_ = AlignedBuffer::zeroed(kHeaderAreaBytes);
  AlignedBuffer block_ = AlignedBuffer::zeroed(kTableBlockBytes);
  std::vector<std::uint32_t> pointers_{7, 0, 0x12345};
};

TEST(Format0Test, WritesAndReadsTheGoldenHeader) {
  const Header header{.version = 0, .sequence = 0, .block_bytes = 4096, .zones = {{300, 64}}};
  std::vector<std::byte> bytes(kHeader0Bytes);
  encode_header0(header, std::span(bytes).first<kHeader0Bytes>());
  EXPECT_EQ(bytes, bytes_of(kGolden0));
  EXPECT_EQ(decode_header0(std::span(bytes).first<kHeader0Bytes>()), header);
}

TEST(Format0Test, RefusesAnotherMagicOrVersion) {
  auto bytes = bytes_of(kGolden0);
  bytes[1] ^= std::byte{1};
  EXPECT_EQ(decode_header0(std::span(bytes).first<kHeader0Bytes>()), fail(Errc::kEdiBadMagic));
  bytes[1] ^= std::byte{1};
  bytes[5] ^= std::byte{1};
  EXPECT_EQ(decode_header0(std::span(bytes).first<kHeader0Bytes>()), fail(Errc::kEdiBadVersion));
}

TEST_F(Format1Test, WritesAndReadsTheGoldenHeader) {
  encode_header1(golden_header1(), area());
  const auto golden = bytes_of(kGolden1);
  EXPECT_TRUE(std::ranges::equal(area().first(golden.size()), golden));
  const auto rest = area().subspan(golden.size());
  EXPECT_TRUE(std::ranges::all_of(rest, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(decode_header1(area()), golden_header1());
}

TEST_F(Format1Test, RefusesEveryFlippedBitOfAHeader) {
  encode_header1(golden_header1(), area());
  for (std::size_t bit = 0; bit < 8 * bytes_of(kGolden1).size(); ++bit) {
    area()[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_FALSE(decode_header1(area()).has_value()) << "bit " << bit;
    area()[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
}

TEST_F(Format1Test, RefusesNonZeroBytesAfterTheHeader) {
  encode_header1(golden_header1(), area());
  for (const std::size_t at : {bytes_of(kGolden1).size(), std::size_t{kHeaderAreaBytes} - 1}) {
    area()[at] = std::byte{1};
    EXPECT_EQ(decode_header1(area()), fail(Errc::kEdiBadHeader)) << at;
    area()[at] = std::byte{0};
  }
}

// A program with a fault may write a wrong header with the right checksum.
TEST_F(Format1Test, RefusesCountsThatDoNotAgree) {
  for (const std::size_t at : {44, 52, 56, 60}) {
    encode_header1(golden_header1(), area());
    area()[at] ^= std::byte{1};
    store_le_at<std::uint32_t>(area(), 8, crc32c(area().subspan(12, 0x60 - 12)));
    EXPECT_EQ(decode_header1(area()), fail(Errc::kEdiBadHeader)) << at;
  }
}

TEST_F(Format1Test, AcceptsAHeaderThatFillsItsArea) {
  Header header = golden_header1();
  header.conventional.clear();
  header.links.clear();
  header.zones.assign(kMaxHeaderEntries, {1, 8});
  encode_header1(header, area());
  EXPECT_EQ(decode_header1(area()), header);
}

TEST_F(Format1Test, WritesAndReadsTheGoldenTableBlock) {
  encode_table_block({2, 9, image_id(golden_header1().uuid), pointers_}, block());
  const auto golden = bytes_of(kGoldenTable);
  EXPECT_TRUE(std::ranges::equal(block().first(golden.size()), golden));
  EXPECT_EQ(decode_block(), 9u);
  EXPECT_EQ(pointers_, (std::vector<std::uint32_t>{7, 0, 0x12345}));
}

TEST_F(Format1Test, RefusesATableBlockOfAnotherPlaceOrImage) {
  encode_table_block({2, 9, image_id(golden_header1().uuid), pointers_}, block());
  EXPECT_EQ(decode_block(3), fail(Errc::kEdiBadChecksum));
  EXPECT_EQ(decode_table_block(block(), 2, 1, pointers_), fail(Errc::kEdiBadChecksum));
}

TEST_F(Format1Test, RefusesReservedBytesOfATableBlockThatAreNotZero) {
  for (const std::size_t at : {28, 36}) {
    encode_table_block({2, 9, image_id(golden_header1().uuid), pointers_}, block());
    block()[at] = std::byte{1};
    store_le_at<std::uint32_t>(block(), 24, crc32c(block().subspan(28), crc32c(block().first(24))));
    EXPECT_FALSE(decode_block().has_value()) << at;
  }
}

TEST_F(Format1Test, RefusesEveryFlippedBitOfATableBlock) {
  encode_table_block({2, 9, image_id(golden_header1().uuid), pointers_}, block());
  for (std::size_t bit = 0; bit < 8 * block().size(); bit += bit < 512 ? 1 : 61) {
    block()[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_FALSE(decode_block().has_value()) << "bit " << bit;
    block()[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
}

TEST(LayoutTest, TheTableLiesBeforeABandOrAfterTheLast) {
  EXPECT_TRUE(lay_out({.table_before = 8, .zones = {{8, 16}}}));
  EXPECT_EQ(lay_out({.table_before = 9, .zones = {{8, 16}}}).error(), Errc::kBadGeometry);
}

TEST(LayoutTest, ALinkHasAsManyBlocksAsANumberHolds) {
  const auto of = [](std::uint32_t blocks) {
    return lay_out({.block_bytes = 512, .zones = {{2, blocks}}, .links = {{0, 1}}});
  };
  EXPECT_EQ(of(UINT32_MAX / 2)->geometry.blocks_of(BandId{0}), UINT32_MAX - 1);
  EXPECT_EQ(of(UINT32_MAX / 2 + 1).error(), Errc::kBadGeometry);
}

TEST(LayoutTest, AnImageConsistsOfWholePages) {
  EXPECT_EQ(lay_out({.block_bytes = 512, .zones = {{1, 9}}})->image_bytes % kBlockBytes, 0u);
}

// Headers with a valid checksum and random values: lay_out() must return, and must not use memory
// or time in proportion to these values.
TEST_F(Format1Test, SurvivesHeadersOfRandomValues) {
  SCOPED_TRACE(seed_trace());
  std::mt19937_64 random(test_seed());
  const auto value = [&] {
    constexpr std::uint32_t kEdges[] = {0, 1, 2, 7, kMaxBands, UINT32_MAX - 1, UINT32_MAX};
    const std::uint64_t pick = random();
    return pick % 3 == 0 ? static_cast<std::uint32_t>(pick >> 32) % 100 : kEdges[pick % 7];
  };
  int possible = 0;
  for (int i = 0; i < 3000; ++i) {
    Header header{.version = 1, .block_bytes = random() % 2 ? 4096 : value()};
    header.table_before = value();
    for (auto n = random() % 4; n > 0; --n) header.zones.push_back({value(), value()});
    for (auto n = random() % 3; n > 0; --n) header.conventional.emplace_back(value(), value());
    for (auto n = random() % 3; n > 0; --n) header.links.emplace_back(value(), value());
    // Large valid values take time, so a few of them are enough.
    std::uint64_t bands = 0;
    for (const Zone& zone : header.zones) bands += zone.count;
    if (bands > 1000 && bands <= kMaxBands && i % 100 != 0) continue;
    encode_header1(header, area());
    const auto decoded = decode_header1(area());
    if (!decoded) continue;
    EXPECT_EQ(*decoded, header);
    const auto layout = lay_out(*decoded);
    possible += layout.has_value();
    if (layout) {
      EXPECT_LE(layout->image_bytes, 2 * kMaxImageBytes);
    }
  }
  EXPECT_GT(possible, 0);
}

}  // namespace
}  // namespace lazyfs::edi
