#include "data/page_pool.h"

namespace lazyfs::data {

std::byte* PagePool::take() {
  MutexLock lock(mu_);
  if (free_.empty()) {
    slabs_.emplace_back(kSlabPages * kBlockBytes);
    std::byte* slab = slabs_.back().data();
    for (std::size_t i = kSlabPages; i > 0; --i) free_.push_back(slab + (i - 1) * kBlockBytes);
  }
  std::byte* page = free_.back();
  free_.pop_back();
  used_.fetch_add(1, std::memory_order_relaxed);
  return page;
}

void PagePool::give_back(std::byte* page) {
  MutexLock lock(mu_);
  free_.push_back(page);
  used_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace lazyfs::data
