#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace lazyfs {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed) {
  constexpr std::size_t kPieceBytes = std::size_t{1} << 30;  // ISA-L takes the length as an int
  std::uint32_t state = ~seed;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPieceBytes));
    // ISA-L's prototype lacks const; the buffer is only read.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data()));
    state = crc32_iscsi(data, static_cast<int>(piece.size()), state);
    bytes = bytes.subspan(piece.size());
  }
  return ~state;
}

}  // namespace lazyfs
