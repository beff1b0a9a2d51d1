// Splits the input of a fuzz target into numbers and bytes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/buffer.h"
#include "base/types.h"
#include "fuzz/targets.h"

namespace lazyfs::fuzz {

// Reads integers off its front; zeros when it has no more.
class Input {
 public:
  explicit Input(Bytes bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  Bytes rest() const { return bytes_; }

  Bytes take(std::size_t at_most) {
    const Bytes taken = bytes_.first(std::min(at_most, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  std::uint32_t number(std::size_t bytes) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; const std::byte byte : take(bytes)) {
      value |= std::to_integer<std::uint32_t>(byte) << 8 * i++;
    }
    return value;
  }

 private:
  Bytes bytes_;
};

// A block that begins with the bytes; the rest is zeros.
inline AlignedBuffer block_of(Bytes bytes, std::size_t blocks = 1) {
  AlignedBuffer block = AlignedBuffer::zeroed(blocks * kBlockBytes);
  std::ranges::copy(bytes.first(std::min(bytes.size(), block.size())), block.data());
  return block;
}

}  // namespace lazyfs::fuzz
