// Memory aligned to blocks, for direct I/O.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

#include "base/types.h"

namespace lazyfs {

// Owns `size()` bytes aligned to kBlockBytes. The contents are unspecified, except after zeroed().
// Movable, not copyable. Not thread-safe.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size_bytes)
      : bytes_(static_cast<std::byte*>(std::aligned_alloc(
            kBlockBytes, blocks_for(size_bytes ? size_bytes : 1) * kBlockBytes))),
        size_(size_bytes) {
    if (!bytes_) throw std::bad_alloc();
  }
  static AlignedBuffer zeroed(std::size_t size_bytes);

  std::byte* data() { return bytes_.get(); }
  const std::byte* data() const { return bytes_.get(); }
  std::size_t size() const { return size_; }
  std::span<std::byte> span() { return {bytes_.get(), size_}; }
  std::span<const std::byte> span() const { return {bytes_.get(), size_}; }
  explicit operator bool() const { return bytes_ != nullptr; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_ = 0;
};

}  // namespace lazyfs
