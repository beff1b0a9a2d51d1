#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace lazyfs {
namespace {

constexpr std::size_t kPieceBytes = 4096;
constexpr std::size_t kCacheLineBytes = 64;

// Asks the CPU to load all of the bytes at once. ISA-L reads in three places at a time, which the
// CPU does not predict: without this it would wait for memory line by line.
void prefetch(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += kCacheLineBytes) {
    __builtin_prefetch(bytes.data() + at);
  }
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed) {
  std::uint32_t state = ~seed;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPieceBytes));
    prefetch(piece);
    // ISA-L's prototype lacks const; the buffer is only read.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data()));
    state = crc32_iscsi(data, static_cast<int>(piece.size()), state);
    bytes = bytes.subspan(piece.size());
  }
  return ~state;
}

}  // namespace lazyfs
