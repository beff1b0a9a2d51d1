#include "sim/persistent_cache.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace lazyfs::sim {

PersistentCache::Dirty& PersistentCache::make_dirty(const Band& band) {
  const auto [at, is_new] = dirty_.try_emplace(band.first_sector);
  if (is_new) {
    at->second.sequence = ++sequence_;
    queue_.push_back({band, sequence_, head_});
  }
  return at->second;
}

void PersistentCache::unpin(const Band& band) {
  const auto at = dirty_.find(band.first_sector);
  CHECK(at != dirty_.end());
  CHECK(at->second.extents > 0);
  if (--at->second.extents == 0) dirty_.erase(at);
}

void PersistentCache::add(std::uint64_t sector, std::uint64_t sectors,
                          std::uint64_t log_sector) {
  extents_.emplace(sector, Extent{sectors, log_sector});
}

void PersistentCache::forget_in_band(const Band& band, std::uint64_t sector, std::uint64_t end) {
  auto at = extents_.upper_bound(sector);
  if (at != extents_.begin() && std::prev(at)->first + std::prev(at)->second.sectors > sector) --at;
  while (at != extents_.end() && at->first < end) {
    const std::uint64_t first = at->first, old_end = first + at->second.sectors;
    const std::uint64_t log_sector = at->second.log_sector;
    if (old_end > end) {  // its end remains
      ++make_dirty(band).extents;
      add(end, old_end - end, log_sector + (end - first));
    }
    if (first < sector) {  // its start remains
      at->second.sectors = sector - first;
      ++at;
    } else {
      at = extents_.erase(at);
      unpin(band);
    }
    if (old_end > end) return;
  }
}

void PersistentCache::forget(std::uint64_t sector, std::uint64_t sectors) {
  const std::uint64_t end = sector + sectors;
  while (sector < end && !extents_.empty()) {
    const Band band = bands_.of(sector);
    const std::uint64_t part_end = std::min(end, band.end());
    if (dirty_.contains(band.first_sector)) forget_in_band(band, sector, part_end);
    sector = part_end;
  }
}

void PersistentCache::write(std::uint64_t sector, std::uint64_t sectors) {
  const std::uint64_t end = sector + sectors;
  while (sector < end) {
    const Band band = bands_.of(sector);
    const std::uint64_t part = std::min(end, band.end()) - sector;
    // The new extent counts before the old ones leave: its band keeps its place (P2).
    ++make_dirty(band).extents;
    forget_in_band(band, sector, sector + part);
    add(sector, part, head_);
    head_ += part;
    sector += part;
  }
}

std::uint64_t PersistentCache::new_extents(std::uint64_t sector, std::uint64_t sectors) const {
  const auto same = extents_.find(sector);
  if (same != extents_.end() && same->second.sectors == sectors) return 0;
  return 1;
}

PersistentCache::Piece PersistentCache::find(std::uint64_t sector, std::uint64_t sectors) const {
  const auto at = extents_.upper_bound(sector);
  if (at != extents_.begin()) {
    const auto& [first, extent] = *std::prev(at);
    if (first + extent.sectors > sector) {
      return {sector, std::min(sectors, first + extent.sectors - sector),
              extent.log_sector + (sector - first)};
    }
  }
  if (at != extents_.end()) sectors = std::min(sectors, at->first - sector);
  return {sector, sectors, std::nullopt};
}

void PersistentCache::drop_from_queue() const {
  const auto is_clean = [&](const Queued& queued) {
    const auto dirty = dirty_.find(queued.band.first_sector);
    return dirty == dirty_.end() || dirty->second.sequence != queued.sequence;
  };
  while (!queue_.empty() && is_clean(queue_.front())) queue_.pop_front();
}

std::optional<PersistentCache::DirtyBand> PersistentCache::oldest() const {
  drop_from_queue();
  if (queue_.empty()) return std::nullopt;
  const Queued front = queue_.front();
  DirtyBand found{front.band};
  const auto begin = extents_.lower_bound(front.band.first_sector);
  found.first_sector = begin->first;  // P2: there is one
  for (auto at = begin; at != extents_.end() && at->first < front.band.end(); ++at) {
    ++found.extents;
    found.sectors += at->second.sectors;
  }
  queue_.pop_front();
  drop_from_queue();
  found.log_sectors = (queue_.empty() ? head_ : queue_.front().first_log_sector) -
                      front.first_log_sector;
  queue_.push_front(front);
  return found;
}

void PersistentCache::clean(const Band& band) {
  const auto begin = extents_.lower_bound(band.first_sector);
  extents_.erase(begin, extents_.lower_bound(band.end()));
  dirty_.erase(band.first_sector);
}

std::uint64_t PersistentCache::used_sectors() const {
  drop_from_queue();
  return queue_.empty() ? 0 : head_ - queue_.front().first_log_sector;
}

}  // namespace lazyfs::sim
