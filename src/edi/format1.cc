#include "edi/format1.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/endian.h"

namespace lazyfs::edi {
namespace {

std::uint32_t table_crc(std::span<const std::byte, kTableBlockBytes> block) {
  return crc32c(block.subspan<28>(), crc32c(block.first<24>()));
}

}  // namespace

void encode_header1(const Header& header, std::span<std::byte, kHeaderAreaBytes> to) {
  std::ranges::fill(to, std::byte{0});
  std::size_t at = kHeader1Bytes;
  std::uint32_t bands = 0;
  auto put_pair = [&](std::uint32_t first, std::uint32_t second) {
    store_le_at<std::uint32_t>(to, at, first);
    store_le_at<std::uint32_t>(to, at + 4, second);
    at += 8;
  };
  for (const Zone& zone : header.zones) {
    put_pair(zone.count, zone.band_blocks);
    bands += zone.count;
  }
  for (const auto& [first, last] : header.conventional) put_pair(first, last);
  for (const auto& [first, last] : header.links) put_pair(first, last);
  store_le_at<std::uint32_t>(to, 0, kMagic);
  store_le_at<std::uint32_t>(to, 4, 1);
  store_le_at<std::uint32_t>(to, 12, static_cast<std::uint32_t>(at));
  store_le_at<std::uint64_t>(to, 16, header.sequence);
  std::ranges::copy(header.uuid, to.begin() + 24);
  store_le_at<std::uint32_t>(to, 40, header.block_bytes);
  store_le_at<std::uint32_t>(to, 44, bands);
  store_le_at<std::uint32_t>(to, 48, header.table_before);
  store_le_at<std::uint32_t>(to, 52, static_cast<std::uint32_t>(header.zones.size()));
  store_le_at<std::uint32_t>(to, 56, static_cast<std::uint32_t>(header.conventional.size()));
  store_le_at<std::uint32_t>(to, 60, static_cast<std::uint32_t>(header.links.size()));
  store_le_at<std::uint32_t>(to, 8, crc32c(to.subspan(12, at - 12)));
}

Result<Header> decode_header1(std::span<const std::byte, kHeaderAreaBytes> from) {
  auto u32 = [&](std::size_t at) { return load_le_at<std::uint32_t>(from, at); };
  if (u32(0) != kMagic) return fail(Errc::kEdiBadMagic);
  if (u32(4) != 1) return fail(Errc::kEdiBadVersion);
  const std::uint32_t length = u32(12);
  if (length < kHeader1Bytes || length > kHeaderAreaBytes) return fail(Errc::kEdiBadChecksum);
  if (crc32c(from.subspan(12, length - 12)) != u32(8)) return fail(Errc::kEdiBadChecksum);

  const auto rest = from.subspan(length);
  if (std::ranges::any_of(rest, [](std::byte b) { return b != std::byte{0}; })) {
    return fail(Errc::kEdiBadHeader);
  }

  const std::uint64_t zones = u32(52), conventional = u32(56), links = u32(60);
  if (kHeader1Bytes + 8 * (zones + conventional + links) != length) {
    return fail(Errc::kEdiBadHeader);
  }
  Header header;
  header.sequence = load_le_at<std::uint64_t>(from, 16);
  std::copy_n(from.begin() + 24, header.uuid.size(), header.uuid.begin());
  header.block_bytes = u32(40);
  header.table_before = u32(48);
  std::size_t at = kHeader1Bytes;
  auto take_pair = [&] {
    at += 8;
    return BandRange{u32(at - 8), u32(at - 4)};
  };
  std::uint64_t bands = 0;
  for (std::uint64_t i = 0; i < zones; ++i) {
    const auto [count, blocks] = take_pair();
    header.zones.push_back({.count = count, .band_blocks = blocks});
    bands += count;
  }
  for (std::uint64_t i = 0; i < conventional; ++i) header.conventional.push_back(take_pair());
  for (std::uint64_t i = 0; i < links; ++i) header.links.push_back(take_pair());
  if (bands != u32(44)) return fail(Errc::kEdiBadHeader);
  return header;
}

void encode_table_block(const TableBlock& block, std::span<std::byte, kTableBlockBytes> to) {
  std::ranges::fill(to, std::byte{0});
  store_le_at<std::uint32_t>(to, 0, kTableMagic);
  store_le_at<std::uint32_t>(to, 4, block.index);
  store_le_at<std::uint64_t>(to, 8, block.sequence);
  store_le_at<std::uint64_t>(to, 16, block.image);
  for (std::size_t i = 0; i < block.pointers.size(); ++i) {
    store_le_at<std::uint32_t>(to, kTableHeaderBytes + 8 * i, block.pointers[i]);
  }
  store_le_at<std::uint32_t>(to, 24, table_crc(to));
}

Result<std::uint64_t> decode_table_block(std::span<const std::byte, kTableBlockBytes> from,
                                         std::uint32_t index, std::uint64_t image,
                                         std::span<std::uint32_t> pointers) {
  if (load_le_at<std::uint32_t>(from, 0) != kTableMagic ||
      load_le_at<std::uint32_t>(from, 4) != index ||
      load_le_at<std::uint64_t>(from, 16) != image ||
      load_le_at<std::uint32_t>(from, 24) != table_crc(from) ||
      load_le_at<std::uint32_t>(from, 28) != 0) {
    return fail(Errc::kEdiBadChecksum);
  }
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    pointers[i] = load_le_at<std::uint32_t>(from, kTableHeaderBytes + 8 * i);
    if (load_le_at<std::uint32_t>(from, kTableHeaderBytes + 8 * i + 4) != 0) {
      return fail(Errc::kEdiBadHeader);
    }
  }
  return load_le_at<std::uint64_t>(from, 8);
}

std::uint64_t image_id(const Uuid& uuid) { return load_le_at<std::uint64_t>(uuid, 0); }

}  // namespace lazyfs::edi
