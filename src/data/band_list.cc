#include "data/band_list.h"

#include <algorithm>

#include "base/check.h"

namespace lazyfs::data {
namespace {

BandList::Blocks blocks_of(const Band& band) {
  if (!is_data(band.state) || band.state == BandState::kBad) return {};
  const BandCounters& c = band.counters;
  return {.total = band.blocks,
          .live = c.live,
          .dead = c.appended - c.live,
          .unwritten = room_in(band),
          .free = band.state == BandState::kFree ? band.blocks : 0};
}

std::uint64_t log_blocks_of(const Band& band) {
  return band.state == BandState::kLog ? band.blocks : 0;
}

}  // namespace

std::string to_string(BandState state) {
  switch (state) {
    case BandState::kSuper: return "super";
    case BandState::kLog: return "log";
    case BandState::kFree: return "free";
    case BandState::kOpen: return "open";
    case BandState::kFull: return "used";
    case BandState::kResetting: return "resetting";
    case BandState::kCutting: return "cutting";
    case BandState::kBad: return "bad";
  }
  return "unknown";
}

BandList::BandList(const device::Geometry& geometry, std::span<const BandId> super_bands,
                   std::span<const BandId> log_bands)
    : bands_(geometry.band_count()) {
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    describe(i, geometry);
    largest_blocks_ = std::max(largest_blocks_, bands_[i].blocks);
  }
  provide_for(bands_);
  for (const BandId band : super_bands) bands_.at(band.value).state = BandState::kSuper;
  for (const BandId band : log_bands) bands_.at(band.value).state = BandState::kLog;
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    count(bands_[i]);
    list(i);
  }
}

void BandList::describe(std::uint32_t index, const device::Geometry& geometry) {
  Band& band = bands_[index];
  band.blocks = geometry.band_blocks[index];
  band.is_conventional = geometry.band_kinds[index] == device::BandKind::kConventional;
  if (band.blocks == 0) band.state = BandState::kBad;
}

void BandList::add_new(const device::Geometry& geometry) {
  const std::uint32_t first = count();
  bands_.resize(std::max(first, geometry.band_count()));
  for (std::uint32_t i = first; i < count(); ++i) describe(i, geometry);
  provide_for(std::span(bands_).subspan(first));
  for (std::uint32_t i = first; i < count(); ++i) {
    CHECK(bands_[i].blocks <= largest_blocks_);
    count(bands_[i]);
    list(i);
  }
}

void BandList::count(const Band& band) {
  const Blocks blocks = blocks_of(band);
  blocks_.total += blocks.total;
  blocks_.live += blocks.live;
  blocks_.dead += blocks.dead;
  blocks_.unwritten += blocks.unwritten;
  blocks_.free += blocks.free;
  log_blocks_ += log_blocks_of(band);
}

void BandList::uncount(const Band& band) {
  const Blocks blocks = blocks_of(band);
  blocks_.total -= blocks.total;
  blocks_.live -= blocks.live;
  blocks_.dead -= blocks.dead;
  blocks_.unwritten -= blocks.unwritten;
  blocks_.free -= blocks.free;
  log_blocks_ -= log_blocks_of(band);
}

// Makes the entries that list these bands. A band is in at most two sets; the third entry is for
// the band that changes, which may be in more for a moment.
void BandList::provide_for(std::span<const Band> bands) {
  std::set<std::uint32_t> sizes;
  for (const Band& band : bands) sizes.insert(band.blocks);
  spare_.reserve(kListsAtOnce * bands_.size());
  spare_sizes_.reserve(spare_sizes_.size() + free_by_blocks_.size() + sizes.size());
  Numbers made;
  for (std::size_t i = 0; i < kListsAtOnce * bands.size(); ++i) {
    made.insert(0);
    spare_.push_back(made.extract(made.begin()));
  }
  BySize made_sizes;
  for (const std::uint32_t blocks : sizes) {
    made_sizes.try_emplace(blocks);
    spare_sizes_.push_back(made_sizes.extract(made_sizes.begin()));
  }
}

void BandList::put(Numbers& numbers, std::uint32_t index, bool is_member) {
  const auto at = numbers.find(index);
  if ((at != numbers.end()) == is_member) return;
  if (!is_member) {
    spare_.push_back(numbers.extract(at));
    return;
  }
  CHECK(!spare_.empty());
  Numbers::node_type entry = std::move(spare_.back());
  spare_.pop_back();
  entry.value() = index;
  numbers.insert(std::move(entry));
}

void BandList::put_by_size(std::uint32_t index, bool is_free) {
  const std::uint32_t blocks = bands_[index].blocks;
  auto alike = free_by_blocks_.find(blocks);
  if (alike == free_by_blocks_.end()) {
    if (!is_free) return;
    CHECK(!spare_sizes_.empty());
    BySize::node_type entry = std::move(spare_sizes_.back());
    spare_sizes_.pop_back();
    entry.key() = blocks;
    alike = free_by_blocks_.insert(std::move(entry)).position;
  }
  put(alike->second, index, is_free);
  if (alike->second.empty()) spare_sizes_.push_back(free_by_blocks_.extract(alike));
}

// Needs no memory: it is called when a change can no longer be undone.
void BandList::list(std::uint32_t index) {
  const Band& band = bands_[index];
  put(free_, index, band.state == BandState::kFree);
  put_by_size(index, band.state == BandState::kFree);
  put(open_, index, band.state == BandState::kOpen);
  put(empty_, index, is_empty(band));
  put(bad_, index, band.state == BandState::kBad && band.blocks > 0);
}

void BandList::unpin(BandId id) {
  Band& band = bands_.at(id.value);
  CHECK(band.pins > 0);
  --band.pins;
}

BandView BandList::view(BandId id) const {
  const Band& band = bands_.at(id.value);
  return {id, band.state, band.blocks, band.counters, band.last_append, band.stream,
          band.leased};
}

std::string BandList::check_invariants() const {
  Blocks sum;
  std::uint64_t log_blocks = 0;
  std::size_t listed_by_blocks = 0;
  for (const auto& [blocks, numbers] : free_by_blocks_) {
    const bool is_alike = std::ranges::all_of(
        numbers, [&](std::uint32_t i) { return free_.contains(i) && bands_[i].blocks == blocks; });
    if (!is_alike || numbers.empty()) return "B5 (free bands of " + std::to_string(blocks) + ")";
    listed_by_blocks += numbers.size();
  }
  if (listed_by_blocks != free_.size()) return "B5 (free bands by size)";
  for (std::uint32_t i = 0; i < bands_.size(); ++i) {
    const Band& b = bands_[i];
    const std::string where = " (band " + std::to_string(i) + ", " + to_string(b.state) + ")";
    const bool is_listed = free_.contains(i) == (b.state == BandState::kFree) &&
                           open_.contains(i) == (b.state == BandState::kOpen) &&
                           empty_.contains(i) == is_empty(b) &&
                           bad_.contains(i) == (b.state == BandState::kBad && b.blocks > 0);
    if (!is_listed) return "B5" + where;
    log_blocks += log_blocks_of(b);
    if (!is_data(b.state)) continue;
    const BandCounters& c = b.counters;
    if (c.live > c.appended || c.appended > b.blocks) return "B1" + where;
    if (b.state == BandState::kFree && (c.appended > 0 || b.leased)) return "B2" + where;
    if (b.leased && b.state != BandState::kOpen) return "B3" + where;
    if (b.state == BandState::kResetting && (c.live > 0 || b.pins > 0)) return "B4" + where;
    const Blocks blocks = blocks_of(b);
    sum.total += blocks.total;
    sum.live += blocks.live;
    sum.dead += blocks.dead;
    sum.unwritten += blocks.unwritten;
    sum.free += blocks.free;
  }
  if (sum != blocks_ || log_blocks != log_blocks_) return "B6";
  return "";
}

}  // namespace lazyfs::data
