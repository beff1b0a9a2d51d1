// Memory for file data that waits to be written: 4 KiB pages aligned for direct I/O.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/large_pages.h"
#include "base/mutex.h"
#include "base/types.h"

namespace lazyfs::data {

// Pages come from slabs; a slab is one large page. The lowest free pages of a slab are taken first.
// So pages taken together usually lie side by side, and an append of them has few pieces of memory
// for the device. Slabs are kept until the pool ends; its owner bounds the pages in use (used()),
// and so the memory.
//
// Invariants (check_invariants()):
//   P1  bit i of a slab's `free` is set exactly when its page i is not taken
//   P2  with_free_ lists exactly the slabs that have a free page
//   P3  used() is the number of pages that are not free
// Thread-safe; mu_ is a leaf lock, not held while the kernel provides memory.
class PagePool {
 public:
  PagePool() = default;
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // A page of kBlockBytes, contents unspecified. Every page must be given back before the pool
  // ends.
  std::byte* take() EXCLUDES(mu_);
  // Takes pages.size() pages. Pages of one slab are in ascending order.
  void take(std::span<std::byte*> pages) EXCLUDES(mu_);
  void give_back(std::byte* page) EXCLUDES(mu_);
  void give_back(std::span<std::byte* const> pages) EXCLUDES(mu_);
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }
  // Memory held for pages, in use or not.
  std::size_t held_bytes() const EXCLUDES(mu_);
  void check_invariants() const EXCLUDES(mu_);  // no other call may run

 private:
  static constexpr std::size_t kSlabPages = kLargePageBytes / kBlockBytes;
  static constexpr std::size_t kWordBits = 64;

  struct Slab {
    LargePages memory{kLargePageBytes};
    std::array<std::uint64_t, kSlabPages / kWordBits> free;
    std::size_t free_pages = kSlabPages;
  };

  static Slab make_slab();
  void add_locked(Slab slab) REQUIRES(mu_);
  std::byte* take_locked() REQUIRES(mu_);
  void give_back_locked(std::byte* page) REQUIRES(mu_);

  std::atomic<std::size_t> used_{0};
  mutable Mutex mu_;
  std::unordered_map<std::uintptr_t, Slab> slabs_ GUARDED_BY(mu_);  // by address of their memory
  std::vector<Slab*> with_free_ GUARDED_BY(mu_);                    // taken from at the end
};

}  // namespace lazyfs::data
