#include "meta/log/hot_chain.h"

#include <algorithm>

#include "base/check.h"

namespace lazyfs::meta {

const ChainBand* HotChain::find(std::uint64_t slot) const {
  const auto found = std::ranges::find(bands_, slot, &ChainBand::slot);
  return found == bands_.end() ? nullptr : &*found;
}

const ChainBand* HotChain::find(BandId band) const {
  const auto found = std::ranges::find(bands_, band, &ChainBand::band);
  return found == bands_.end() ? nullptr : &*found;
}

std::uint64_t HotChain::head_slot() const {
  return bands_.size() > past_head_ ? bands_[bands_.size() - 1 - past_head_].slot : 0;
}

std::uint64_t HotChain::available() const {
  std::uint64_t blocks = 0;
  for (const Room& room : rooms({})) blocks += room.blocks;
  return blocks;
}

std::vector<Room> HotChain::rooms(std::span<const BandId> free) const {
  const device::Geometry& geometry = device_.geometry();
  std::vector<Room> rooms;
  const std::size_t begun = bands_.size() - past_head_;
  if (begun > 0) {
    const ChainBand& head = bands_[begun - 1];
    rooms.push_back(
        {head.band, head.slot, head_rba_, geometry.blocks_of(head.band) - head_rba_});
  }
  for (std::size_t i = begun; i < bands_.size(); ++i) {
    rooms.push_back({bands_[i].band, bands_[i].slot, 1, geometry.blocks_of(bands_[i].band) - 1});
  }
  std::uint64_t slot = next_slot_;
  for (const BandId band : free) rooms.push_back({band, slot++, 1, geometry.blocks_of(band) - 1});
  return rooms;
}

std::vector<BandId> HotChain::bands_before(std::uint64_t slot) const {
  std::vector<BandId> before;
  for (const ChainBand& band : bands_) {
    if (band.slot < slot) before.push_back(band.band);
  }
  return before;
}

std::size_t HotChain::index_of(std::uint64_t slot) const {
  const auto found = std::ranges::find(bands_, slot, &ChainBand::slot);
  CHECK(found != bands_.end());
  return static_cast<std::size_t>(found - bands_.begin());
}

void HotChain::set_head(std::uint64_t slot, std::uint32_t rba) { make_head(index_of(slot), rba); }

void HotChain::make_head(std::size_t index, std::uint32_t rba) {
  past_head_ = bands_.size() - 1 - index;
  head_rba_ = rba;
}

void HotChain::take_back(const Room& first) {
  const std::size_t index = index_of(first.slot);
  if (first.rba > 1) return make_head(index, first.rba);
  // The transaction was to begin this band, because the previous band had no room.
  if (index > 0) return make_head(index - 1, device_.geometry().blocks_of(bands_[index - 1].band));
  past_head_ = bands_.size();
}

void HotChain::close(const ChainBand& band, bool is_void) {
  make_head(index_of(band.slot), device_.geometry().blocks_of(band.band));
  if (is_void) void_slots_.insert(band.slot);
}

std::vector<ChainBand> HotChain::recoverable_bands() const {
  std::vector<ChainBand> bands(bands_.begin(), bands_.end());
  std::erase_if(bands,
                [this](const ChainBand& band) { return void_slots_.contains(band.slot); });
  return bands;
}

}  // namespace lazyfs::meta
