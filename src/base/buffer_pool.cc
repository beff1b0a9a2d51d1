#include "base/buffer_pool.h"

#include <bit>

#include "base/check.h"
#include "base/types.h"

namespace lazyfs {

BufferPool::BufferPool(std::size_t buffer_bytes) : buffer_bytes_(buffer_bytes) {
  CHECK(std::has_single_bit(buffer_bytes));
  CHECK(buffer_bytes >= kBlockBytes);
  CHECK(buffer_bytes <= kLargePageBytes);
}

BufferPool::~BufferPool() {
  MutexLock lock(mu_);
  CHECK(free_.size() * buffer_bytes_ == pages_.size() * kLargePageBytes);  // none is on loan
}

// The first buffer of the page is lent first.
void BufferPool::add_page_locked() {
  const std::span<std::byte> page = pages_.emplace_back(kLargePageBytes).span();
  for (std::size_t end = page.size(); end > 0; end -= buffer_bytes_) {
    free_.push_back(page.subspan(end - buffer_bytes_, buffer_bytes_));
  }
}

BufferPool::Loan BufferPool::lend() {
  MutexLock lock(mu_);
  if (free_.empty()) add_page_locked();
  const std::span<std::byte> bytes = free_.back();
  free_.pop_back();
  return {*this, bytes};
}

void BufferPool::give_back(std::span<std::byte> bytes) {
  MutexLock lock(mu_);
  free_.push_back(bytes);
}

std::size_t BufferPool::held_bytes() const {
  MutexLock lock(mu_);
  return pages_.size() * kLargePageBytes;
}

}  // namespace lazyfs
