// EDI format 1: zones of different band sizes, conventional and linked bands, and checksums. The
// write pointers are in the middle of the image, to keep seeks to them short.
//
// The header has two copies, at 0 and at 64 KiB. The valid copy with the higher sequence counts.
//
//   offset size field
//        0    4 magic         0x0E5D1000
//        4    4 version       1
//        8    4 crc32c        of bytes [12, length)
//       12    4 length        64 + 8 * (zones + conventional + links)
//       16    8 sequence      of this copy
//       24   16 uuid
//       40    4 block bytes   a power of two, 512 to 65536
//       44    4 bands         the sum of the zones' counts
//       48    4 table before  the write pointer table lies just before this band
//       52    4 zones         number of pairs (count u32, band blocks u32)
//       56    4 conventional  number of pairs (first band u32, last band u32)
//       60    4 links         number of pairs (first band u32, last band u32)
//       64    8 each          the pairs, in this order; then zeros to the end of the 64 KiB
//
// The table has a block of 4096 bytes for every 508 bands. Each block has two adjacent slots, which
// are written alternately. The valid slot with the higher sequence counts.
//
//   offset size field
//        0    4 magic         0x0E5D1001
//        4    4 index         of the block in the table
//        8    8 sequence
//       16    8 image         the first half of the UUID
//       24    4 crc32c        of bytes [0, 24) and [28, 4096)
//       28    4 reserved
//       32    8 each          write pointer u32, reserved u32
#pragma once

#include <span>

#include "edi/layout.h"

namespace lazyfs::edi {

inline constexpr std::uint32_t kHeaderAreaBytes = 65536;
inline constexpr std::uint32_t kHeaderCopies = 2;
inline constexpr std::uint32_t kHeader1Bytes = 64;  // before the pairs
inline constexpr std::uint32_t kMaxHeaderEntries = (kHeaderAreaBytes - kHeader1Bytes) / 8;

inline constexpr std::uint32_t kTableMagic = 0x0E5D1001;
inline constexpr std::uint32_t kTableBlockBytes = 4096;
inline constexpr std::uint32_t kTableSlots = 2;
inline constexpr std::uint32_t kPointersPerBlock = 508;
inline constexpr std::uint32_t kTableHeaderBytes = 32;
static_assert(kTableHeaderBytes + 8 * kPointersPerBlock == kTableBlockBytes);

constexpr std::uint32_t table_blocks(std::uint32_t bands) {
  return (bands + kPointersPerBlock - 1) / kPointersPerBlock;
}
constexpr std::uint64_t table_bytes(std::uint32_t bands) {
  return std::uint64_t{table_blocks(bands)} * kTableSlots * kTableBlockBytes;
}
inline std::size_t entries_of(const Header& header) {
  return header.zones.size() + header.conventional.size() + header.links.size();
}

// Zeroes `to` after the pairs. REQUIRES: entries_of(header) <= kMaxHeaderEntries.
void encode_header1(const Header& header, std::span<std::byte, kHeaderAreaBytes> to);
// Errors: kEdiBadMagic, kEdiBadVersion, kEdiBadChecksum, kEdiBadHeader.
Result<Header> decode_header1(std::span<const std::byte, kHeaderAreaBytes> from);

struct TableBlock {
  std::uint32_t index = 0;
  std::uint64_t sequence = 0;
  std::uint64_t image = 0;
  std::span<const std::uint32_t> pointers;  // at most kPointersPerBlock
};
void encode_table_block(const TableBlock& block, std::span<std::byte, kTableBlockBytes> to);
// Fills `pointers` and returns the sequence. Errors: kEdiBadChecksum if the block is damaged or has
// another image or index, kEdiBadHeader if a reserved byte is not 0.
Result<std::uint64_t> decode_table_block(std::span<const std::byte, kTableBlockBytes> from,
                                         std::uint32_t index, std::uint64_t image,
                                         std::span<std::uint32_t> pointers);
std::uint64_t image_id(const Uuid& uuid);

}  // namespace lazyfs::edi
