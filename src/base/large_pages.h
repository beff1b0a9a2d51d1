// Memory in the CPU's large pages: for buffers of long reads and writes, and for large amounts of
// memory that are searched at random.
//
// A request to a device lists the pieces of memory that its data comes from or goes to. 1 MiB in
// pages of 4 KiB, which may lie anywhere, has 256 pieces; in a large page it has one. A loop device
// takes 128 pieces at a time, and a virtual disk may handle them one by one (docs/performance.md).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace lazyfs {

// As on AMD64, and on ARM64 with pages of 4 KiB.
inline constexpr std::size_t kLargePageBytes = std::size_t{2} << 20;

// Owns zeroed memory, aligned to kLargePageBytes. The kernel provides a page at its first touch or
// in populate(): a large page if one is free and transparent_hugepage allows it, else small ones.
// Movable, not copyable. Not thread-safe.
class LargePages {
 public:
  LargePages() = default;
  // `bytes`: a multiple of kLargePageBytes, not 0. std::bad_alloc: no address space.
  explicit LargePages(std::size_t bytes);
  // The fewest pages that hold `bytes`. REQUIRES: bytes > 0.
  static LargePages holding(std::size_t bytes) {
    return LargePages((bytes + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes);
  }

  // Makes the kernel provide all of the memory now, which is faster than page by page.
  void populate();

  // Gives up ownership without unmapping: the memory exists until the process ends.
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
