#include "sim/persistent_cache.h"

#include <algorithm>
#include <iterator>

namespace lazyfs::sim {

PersistentCache::Dirty& PersistentCache::make_dirty(const Band& band) {
  const auto [at, is_new] = dirty_.try_emplace(band.first_sector);
  if (is_new) {
    at->second.sequence = ++sequence_;
    queue_.push_back({band, sequence_, head_});
  }
  return at->second;
}

const PersistentCache::Dirty* PersistentCache::dirty_band(const Band& band) const {
  const auto at = dirty_.find(band.first_sector);
  return at == dirty_.end() ? nullptr : &at->second;
}

void PersistentCache::cut(Dirty& dirty, std::uint64_t sector, std::uint64_t end) {
  Extents& extents = dirty.extents;
  auto first = std::ranges::lower_bound(extents, sector, {}, &Extent::sector);
  if (first != extents.begin() && std::prev(first)->end() > sector) --first;
  auto last = first;
  while (last != extents.end() && last->sector < end) ++last;
  if (first == last) return;
  const Extent head = *first, tail = *std::prev(last);
  extents_ -= extents.size();
  auto at = extents.erase(first, last);
  if (tail.end() > end) {
    at = extents.insert(at, {end, tail.end() - end, tail.log_sector + (end - tail.sector)});
  }
  if (head.sector < sector) {
    extents.insert(at, {head.sector, sector - head.sector, head.log_sector});
  }
  extents_ += extents.size();
}

void PersistentCache::put(Dirty& dirty, const Extent& extent) {
  auto at = std::ranges::lower_bound(dirty.extents, extent.sector, {}, &Extent::sector);
  if (at != dirty.extents.end() && at->sector == extent.sector &&
      at->sectors == extent.sectors) {  // the usual overwrite
    *at = extent;
    return;
  }
  cut(dirty, extent.sector, extent.end());
  at = std::ranges::lower_bound(dirty.extents, extent.sector, {}, &Extent::sector);
  dirty.extents.insert(at, extent);
  ++extents_;
}

void PersistentCache::forget(std::uint64_t sector, std::uint64_t sectors) {
  const std::uint64_t end = sector + sectors;
  while (sector < end && !dirty_.empty()) {
    const Band band = bands_.of(sector);
    const std::uint64_t part_end = std::min(end, band.end());
    if (const auto at = dirty_.find(band.first_sector); at != dirty_.end()) {
      cut(at->second, sector, part_end);
      if (at->second.extents.empty()) dirty_.erase(at);
    }
    sector = part_end;
  }
}

void PersistentCache::write(std::uint64_t sector, std::uint64_t sectors) {
  const std::uint64_t end = sector + sectors;
  while (sector < end) {
    const Band band = bands_.of(sector);
    const std::uint64_t part = std::min(end, band.end()) - sector;
    put(make_dirty(band), {sector, part, head_});
    head_ += part;
    sector += part;
  }
}

std::uint64_t PersistentCache::new_extents(std::uint64_t sector, std::uint64_t sectors) const {
  const Dirty* const dirty = dirty_band(bands_.of(sector));
  if (!dirty) return 1;
  const auto at = std::ranges::lower_bound(dirty->extents, sector, {}, &Extent::sector);
  const bool replaces =
      at != dirty->extents.end() && at->sector == sector && at->sectors == sectors;
  return replaces ? 0 : 1;
}

PersistentCache::Piece PersistentCache::find(std::uint64_t sector, std::uint64_t sectors) const {
  if (dirty_.empty()) return {sector, sectors, std::nullopt};
  const Band band = bands_.of(sector);
  sectors = std::min(sectors, band.end() - sector);
  const Dirty* const dirty = dirty_band(band);
  if (!dirty) return {sector, sectors, std::nullopt};
  const auto at = std::ranges::upper_bound(dirty->extents, sector, {}, &Extent::sector);
  if (at != dirty->extents.begin()) {
    const Extent& extent = *std::prev(at);
    if (extent.end() > sector) {
      return {sector, std::min(sectors, extent.end() - sector),
              extent.log_sector + (sector - extent.sector)};
    }
  }
  if (at != dirty->extents.end()) sectors = std::min(sectors, at->sector - sector);
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
  const Extents& extents = dirty_band(front.band)->extents;  // P2: there is one
  DirtyBand found{front.band, extents.size(), 0, extents.front().sector, 0};
  for (const Extent& extent : extents) found.sectors += extent.sectors;
  queue_.pop_front();
  drop_from_queue();
  found.log_sectors = (queue_.empty() ? head_ : queue_.front().first_log_sector) -
                      front.first_log_sector;
  queue_.push_front(front);
  return found;
}

void PersistentCache::clean(const Band& band) {
  const auto at = dirty_.find(band.first_sector);
  if (at == dirty_.end()) return;
  extents_ -= at->second.extents.size();
  dirty_.erase(at);
}

std::uint64_t PersistentCache::used_sectors() const {
  drop_from_queue();
  return queue_.empty() ? 0 : head_ - queue_.front().first_log_sector;
}

}  // namespace lazyfs::sim
