// The bytes of the identification block, by the table of docs/format.md.
#include "plain/identity_format.h"

#include <gtest/gtest.h>

#include "base/buffer.h"
#include "base/crc32c.h"
#include "base/endian.h"
#include "test/support/result_printer.h"
#include "test/support/units.h"

namespace lazyfs::plain {
namespace {

class IdentityFormatTest : public testing::Test {
 protected:
  static Identity sample() {
    Identity identity;
    identity.compat = 0x11;
    identity.ro_compat = 0x22;
    identity.incompat = 0x33;
    for (std::uint8_t i = 0; i < 16; ++i) identity.uuid[i] = static_cast<std::uint8_t>(0xA0 + i);
    identity.label = "Dachboden \xC3\xBC";
    identity.volume_bytes = 100 * kMiB + 512;
    identity.band_bytes = kMiB / 2;
    identity.band_count = 196;
    identity.super_bands = {BandId{0}, BandId{195}};
    identity.created_seconds = 1'700'000'000;
    identity.generation = 3;
    return identity;
  }
  std::span<std::byte, kBlockBytes> block() { return block_.span().first<kBlockBytes>(); }
  Result<Identity> decoded() { return decode_identity(block()); }
  Result<Identity> reread(const Identity& identity) {
    encode(identity, block());
    return decoded();
  }
  // Changes a byte and makes the checksum right again.
  void poke(std::size_t at, int value) {
    block()[at] = static_cast<std::byte>(value);
    store_le_at(block(), 8, crc32c(block().subspan(12)));
  }

  AlignedBuffer block_ = AlignedBuffer::zeroed(kBlockBytes);
};

TEST_F(IdentityFormatTest, ReadsWhatItWrote) { EXPECT_EQ(reread(sample()), sample()); }

TEST_F(IdentityFormatTest, EachFieldLiesWhereTheTableSays) {
  encode(sample(), block());
  const auto u32 = [&](std::size_t at) { return load_le_at<std::uint32_t>(block(), at); };
  const auto u64 = [&](std::size_t at) { return load_le_at<std::uint64_t>(block(), at); };
  EXPECT_EQ(u64(0), 0x0100'5346'595A'414Cu);
  EXPECT_EQ(u32(8), crc32c(block().subspan(12)));
  EXPECT_EQ(u32(12), 0x11u);
  EXPECT_EQ(u32(16), 0x22u);
  EXPECT_EQ(u32(20), 0x33u);
  EXPECT_EQ(u32(24), 4096u);
  EXPECT_EQ(u32(28), 0u);
  EXPECT_EQ(u64(32), 0xA7A6A5A4A3A2A1A0u);
  EXPECT_EQ(u64(48), 0x65646F6268636144u) << "Dachbode";
  EXPECT_EQ(u64(112), 100 * kMiB + 512);
  EXPECT_EQ(u64(120), kMiB / 2);
  EXPECT_EQ(u32(128), 196u);
  EXPECT_EQ(u32(132), 0u);
  EXPECT_EQ(u32(136), 195u);
  EXPECT_EQ(u64(144), 1'700'000'000u);
  EXPECT_EQ(u64(152), 3u);
  EXPECT_EQ(u64(160), 0u);
  EXPECT_EQ(u64(4088), 0u);
}

TEST_F(IdentityFormatTest, TheCopyLiesInTheLastWholeMiB) {
  EXPECT_EQ(copy_at(100 * kMiB), 99 * kMiB + 65536);
  EXPECT_EQ(copy_at(101 * kMiB - 512), 99 * kMiB + 65536);
  EXPECT_EQ(bands_in(100 * kMiB, kMiB), 98u);
  EXPECT_EQ(bands_in(101 * kMiB - 1, kMiB), 98u);
  EXPECT_EQ(bands_in(2 * kMiB, 4096), 0u);
  EXPECT_EQ(bands_in(0, 4096), 0u);
}

TEST_F(IdentityFormatTest, ABlockWithoutTheMagicIsNone) {
  EXPECT_EQ(decoded(), fail(Errc::kIdentityMissing));
  encode(sample(), block());
  poke(7, 2);
  EXPECT_EQ(decoded(), fail(Errc::kIdentityMissing));
}

TEST_F(IdentityFormatTest, EveryChangedByteIsNoticed) {
  encode(sample(), block());
  for (std::size_t at = 0; at < kBlockBytes; ++at) {
    block()[at] ^= std::byte{0x10};
    EXPECT_FALSE(decoded()) << at;
    block()[at] ^= std::byte{0x10};
  }
  EXPECT_TRUE(decoded());
}

TEST_F(IdentityFormatTest, RoomIsKeptAsItIs) {
  encode(sample(), block());
  for (const std::size_t at : {28, 31, 140, 143, 160, 4095}) poke(at, 0x5A);
  const auto found = decoded();
  ASSERT_TRUE(found);
  AlignedBuffer again = AlignedBuffer::zeroed(kBlockBytes);
  encode(*found, again.span().first<kBlockBytes>());
  EXPECT_TRUE(std::ranges::equal(again.span(), block()));
}

TEST_F(IdentityFormatTest, ALabelHasUpTo63Bytes) {
  Identity identity = sample();
  for (const std::size_t length : {0, 1, 62, 63}) {
    identity.label = std::string(length, 'x');
    EXPECT_EQ(reread(identity), identity);
  }
  poke(48 + 63, 'x');
  EXPECT_EQ(decoded(), fail(Errc::kIdentityBad)) << "a label without an end";
  encode(sample(), block());
  poke(48 + 40, 'x');
  EXPECT_EQ(decoded(), fail(Errc::kIdentityBad)) << "bytes after the label's end";
}

TEST_F(IdentityFormatTest, ImpossibleValuesAreRefused) {
  const auto refused = [&](auto change) {
    Identity identity = sample();
    change(identity);
    return reread(identity) == fail(Errc::kIdentityBad);
  };
  for (const std::uint32_t bytes : {0u, 256u, 1000u, 131072u}) {
    EXPECT_TRUE(refused([&](Identity& i) { i.block_bytes = bytes; })) << bytes;
  }
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{2048}, kMiB / 2 + 512,
                                    std::uint64_t{1} << 63}) {
    EXPECT_TRUE(refused([&](Identity& i) { i.band_bytes = bytes; })) << bytes;
  }
  EXPECT_TRUE(refused([](Identity& i) { i.band_count = 0; }));
  EXPECT_TRUE(refused([](Identity& i) { i.band_count = 197; })) << "no room for the copy";
  EXPECT_TRUE(refused([](Identity& i) { i.band_count = UINT32_MAX; }));
  for (const std::uint64_t bytes : {std::uint64_t{0}, kMiB, 2 * kMiB, 100 * kMiB - 1}) {
    EXPECT_TRUE(refused([&](Identity& i) { i.volume_bytes = bytes; })) << bytes;
  }
  EXPECT_TRUE(refused([](Identity& i) { i.super_bands = {BandId{5}, BandId{5}}; }));
  EXPECT_TRUE(refused([](Identity& i) { i.super_bands = {BandId{196}, BandId{5}}; }));
  EXPECT_TRUE(refused([](Identity& i) { i.generation = 0; }));
  EXPECT_TRUE(refused([](Identity& i) {
    i.volume_bytes = std::uint64_t{1} << 40;
    i.band_count = kMaxBands + 1;
    i.band_bytes = 4096;
  }));
  EXPECT_TRUE(refused([](Identity& i) {
    i.volume_bytes = std::uint64_t{1} << 60;
    i.band_bytes = std::uint64_t{4096} << 32;
  })) << "its blocks have no numbers";
}

}  // namespace
}  // namespace lazyfs::plain
