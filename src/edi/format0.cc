#include "edi/format0.h"

#include "base/endian.h"

namespace lazyfs::edi {

void encode_header0(const Header& header, std::span<std::byte, kHeader0Bytes> to) {
  store_le_at<std::uint32_t>(to, 0, kMagic);
  store_le_at<std::uint32_t>(to, 4, 0);
  store_le_at<std::uint32_t>(to, 8, header.block_bytes);
  store_le_at<std::uint32_t>(to, 12, header.zones.front().count);
  store_le_at<std::uint32_t>(to, 16, header.zones.front().band_blocks);
}

Result<Header> decode_header0(std::span<const std::byte, kHeader0Bytes> from) {
  if (load_le_at<std::uint32_t>(from, 0) != kMagic) return fail(Errc::kEdiBadMagic);
  if (load_le_at<std::uint32_t>(from, 4) != 0) return fail(Errc::kEdiBadVersion);
  Header header{.version = 0, .sequence = 0};
  header.block_bytes = load_le_at<std::uint32_t>(from, 8);
  header.zones = {{.count = load_le_at<std::uint32_t>(from, 12),
                   .band_blocks = load_le_at<std::uint32_t>(from, 16)}};
  return header;
}

}  // namespace lazyfs::edi
