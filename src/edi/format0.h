// EDI format 0, the fixed-band image of the ShingledFS thesis, section 4.4.
//
//   offset size field
//        0    4 magic        0x0E5D1000
//        4    4 version      0
//        8    4 block bytes  a power of two, 512 to 65536
//       12    4 bands        1 to 2^24
//       16    4 band blocks  not 0
//       20  4*n write pointers, one a band, each at most `band blocks`
//
// The first band starts at the next multiple of 64 KiB. There is no checksum; a write pointer never
// straddles a sector, so a torn write leaves each one old or new.
#pragma once

#include <span>

#include "edi/layout.h"

namespace lazyfs::edi {

inline constexpr std::uint32_t kHeader0Bytes = 20;

void encode_header0(const Header& header, std::span<std::byte, kHeader0Bytes> to);
// Errors: kEdiBadMagic, kEdiBadVersion.
Result<Header> decode_header0(std::span<const std::byte, kHeader0Bytes> from);

}  // namespace lazyfs::edi
