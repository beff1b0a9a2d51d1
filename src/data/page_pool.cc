#include "data/page_pool.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "base/check.h"

namespace lazyfs::data {

PagePool::Slab PagePool::make_slab() {
  Slab slab;
  slab.memory.populate();
  slab.free.fill(~std::uint64_t{0});
  return slab;
}

void PagePool::add_locked(Slab slab) {
  const auto address = reinterpret_cast<std::uintptr_t>(slab.memory.data());
  with_free_.reserve(slabs_.size() + 1);  // so that giving back needs no memory
  with_free_.push_back(&slabs_.emplace(address, std::move(slab)).first->second);
}

std::byte* PagePool::take_locked() {
  Slab& slab = *with_free_.back();
  const auto word = std::ranges::find_if(slab.free, [](std::uint64_t bits) { return bits != 0; });
  const auto bit = static_cast<std::size_t>(std::countr_zero(*word));
  *word &= *word - 1;
  if (--slab.free_pages == 0) with_free_.pop_back();
  const auto index = static_cast<std::size_t>(word - slab.free.begin()) * kWordBits + bit;
  return slab.memory.data() + index * kBlockBytes;
}

void PagePool::give_back_locked(std::byte* page) {
  const auto address = reinterpret_cast<std::uintptr_t>(page);
  const auto found = slabs_.find(address & ~(std::uintptr_t{kLargePageBytes} - 1));
  CHECK(found != slabs_.end());
  Slab& slab = found->second;
  const std::size_t index = (address - found->first) / kBlockBytes;
  std::uint64_t& word = slab.free[index / kWordBits];
  const std::uint64_t mask = std::uint64_t{1} << (index % kWordBits);
  CHECK((word & mask) == 0);  // P1: the page was taken
  word |= mask;
  if (slab.free_pages++ == 0) with_free_.push_back(&slab);
}

std::byte* PagePool::take() {
  std::byte* page = nullptr;
  take(std::span(&page, 1));
  return page;
}

void PagePool::take(std::span<std::byte*> pages) {
  std::size_t taken = 0;
  std::optional<Slab> fresh;
  try {
    for (;;) {
      {
        MutexLock lock(mu_);
        if (fresh) add_locked(std::move(*fresh));
        while (taken < pages.size() && !with_free_.empty()) pages[taken++] = take_locked();
      }
      if (taken == pages.size()) break;
      fresh = make_slab();
    }
  } catch (...) {
    MutexLock lock(mu_);
    for (std::byte* page : pages.first(taken)) give_back_locked(page);
    throw;
  }
  used_.fetch_add(pages.size(), std::memory_order_relaxed);
}

void PagePool::give_back(std::byte* page) { give_back(std::span(&page, 1)); }

void PagePool::give_back(std::span<std::byte* const> pages) {
  MutexLock lock(mu_);
  for (std::byte* page : pages) give_back_locked(page);
  used_.fetch_sub(pages.size(), std::memory_order_relaxed);
}

std::size_t PagePool::held_bytes() const {
  MutexLock lock(mu_);
  return slabs_.size() * kLargePageBytes;
}

void PagePool::check_invariants() const {
  MutexLock lock(mu_);
  std::size_t taken = 0;
  for (const auto& [address, slab] : slabs_) {
    std::size_t free = 0;
    for (const std::uint64_t word : slab.free)
      free += static_cast<std::size_t>(std::popcount(word));
    CHECK(free == slab.free_pages);  // P1
    const auto listed = std::ranges::count(with_free_, &slab);
    CHECK(listed == (free > 0 ? 1 : 0));  // P2
    taken += kSlabPages - free;
  }
  CHECK(taken == used());  // P3
}

}  // namespace lazyfs::data
