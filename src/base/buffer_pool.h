// Buffers in large pages, which are lent and given back.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/large_pages.h"
#include "base/mutex.h"

namespace lazyfs {

// Makes buffers when they are needed, and keeps them until the pool ends. The buffer that was given
// back last is lent first. Thread-safe; mu_ is a leaf lock.
class BufferPool {
 public:
  // A buffer on loan, contents unspecified. Gives itself back; the pool must outlive it.
  class Loan {
   public:
    Loan() = default;
    Loan(BufferPool& pool, std::span<std::byte> bytes) : pool_(&pool), bytes_(bytes) {}
    Loan(Loan&& other) noexcept { swap(other); }
    Loan& operator=(Loan&& other) noexcept {
      Loan(std::move(other)).swap(*this);
      return *this;
    }
    ~Loan() {
      if (pool_) pool_->give_back(bytes_);
    }
    std::span<std::byte> bytes() const { return bytes_; }

   private:
    void swap(Loan& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(bytes_, other.bytes_);
    }
    BufferPool* pool_ = nullptr;
    std::span<std::byte> bytes_;
  };

  // `buffer_bytes`: a power of two from kBlockBytes to kLargePageBytes.
  explicit BufferPool(std::size_t buffer_bytes);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // std::bad_alloc: no memory.
  Loan lend() EXCLUDES(mu_);
  // Memory held for buffers, on loan or not.
  std::size_t held_bytes() const EXCLUDES(mu_);

 private:
  void give_back(std::span<std::byte> bytes) EXCLUDES(mu_);
  void add_page_locked() REQUIRES(mu_);

  const std::size_t buffer_bytes_;
  mutable Mutex mu_;
  std::vector<LargePages> pages_ GUARDED_BY(mu_);
  std::vector<std::span<std::byte>> free_ GUARDED_BY(mu_);  // lent from the end
};

}  // namespace lazyfs
