// Memory for file data that waits to be written: 4 KiB pages aligned for direct I/O.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"

namespace lazyfs::data {

// Pages come from slabs of 1 MiB, so pages taken together mostly lie side by side. Slabs are kept until
// the pool ends; its owner bounds the pages in use (used()), and so the memory.
// Thread-safe; mu_ is a leaf lock.
class PagePool {
 public:
  // A page of kBlockBytes, contents unspecified. Give every page back before the pool ends.
  std::byte* take() EXCLUDES(mu_);
  void give_back(std::byte* page) EXCLUDES(mu_);
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kSlabPages = 256;

  std::atomic<std::size_t> used_{0};
  Mutex mu_;
  std::vector<AlignedBuffer> slabs_ GUARDED_BY(mu_);
  std::vector<std::byte*> free_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::data
