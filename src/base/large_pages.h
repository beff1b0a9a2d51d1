// Memory in the machine's large pages, for what a device reads or writes much of at a time, and for
// much memory that is searched at random.
//
// A request to a device lists the pieces of memory that its data comes from or goes to. In pages of
// 4 KiB, which lie anywhere, 1 MiB has 256 pieces; in a large page it has one. A loop device takes
// 128 pieces at a time, and a virtual disk may handle them one by one (docs/performance.md).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace lazyfs {

// As on AMD64, and on ARM64 with pages of 4 KiB.
inline constexpr std::size_t kLargePageBytes = std::size_t{2} << 20;

// Owns memory aligned to kLargePageBytes, zeroed. The kernel provides it at the first touch, or by
// populate(), in large pages as far as it has some and may (transparent_hugepage), else in small
// ones. Movable, not copyable. Not thread-safe.
class LargePages {
 public:
  LargePages() = default;
  // `bytes`: a multiple of kLargePageBytes, not 0. std::bad_alloc: no address space.
  explicit LargePages(std::size_t bytes);
  // As few as hold `bytes`, which is not 0.
  static LargePages holding(std::size_t bytes) {
    return LargePages((bytes + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes);
  }

  // All of it at once, which is faster than at the first touches.
  void populate();

  // Leaves the memory to the end of the process.
  void abandon() { static_cast<void>(bytes_.release()); }

  std::byte* data() { return bytes_.get(); }
  const std::byte* data() const { return bytes_.get(); }
  std::size_t size() const { return bytes_ ? bytes_.get_deleter().bytes : 0; }
  std::span<std::byte> span() { return {data(), size()}; }
  explicit operator bool() const { return bytes_ != nullptr; }

 private:
  struct Unmap {
    Unmap() : bytes(0) {}
    explicit Unmap(std::size_t mapped) : bytes(mapped) {}
    void operator()(std::byte* at) const;
    std::size_t bytes;
  };
  std::unique_ptr<std::byte, Unmap> bytes_;
};

}  // namespace lazyfs
