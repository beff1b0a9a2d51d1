#include "base/large_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "base/check.h"

namespace lazyfs {
namespace {

// munmap() fails when the process has too many mappings. Then only address space is lost.
void unmap(std::byte* at, std::size_t bytes) {
  if (bytes > 0) static_cast<void>(::munmap(at, bytes));
}

}  // namespace

void LargePages::Unmap::operator()(std::byte* at) const { unmap(at, bytes); }

LargePages::LargePages(std::size_t bytes) {
  CHECK(bytes > 0);
  CHECK(bytes % kLargePageBytes == 0);
  const std::size_t mapped = bytes + kLargePageBytes;  // an aligned part of it is kept
  void* const map = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(map);
  const std::size_t before = (0 - reinterpret_cast<std::uintptr_t>(begin)) % kLargePageBytes;
  unmap(begin, before);
  bytes_ = {begin + before, Unmap(bytes)};
  unmap(data() + bytes, kLargePageBytes - before);
  // Kernels without large pages refuse.
  static_cast<void>(::madvise(data(), bytes, MADV_HUGEPAGE));
}

void LargePages::populate() {
  // Kernels before 5.14 refuse; they provide each page at its first touch.
  static_cast<void>(::madvise(data(), size(), MADV_POPULATE_WRITE));
}

}  // namespace lazyfs
