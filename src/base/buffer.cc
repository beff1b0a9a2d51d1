#include "base/buffer.h"

#include <cstring>

namespace lazyfs {

AlignedBuffer AlignedBuffer::zeroed(std::size_t size_bytes) {
  AlignedBuffer buffer(size_bytes);
  std::memset(buffer.data(), 0, size_bytes);
  return buffer;
}

}  // namespace lazyfs
