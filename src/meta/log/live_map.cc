#include "meta/log/live_map.h"

#include <algorithm>
#include <limits>

namespace lazyfs::meta {

void LiveMap::assign(NodeNo node, BandAddress address, Part& part) {
  const auto before = jmap_.assign(node, address, part);
  if (before) --live_in_[before->band.value];
  ++live_in_[address.band.value];  // P2
  written_at_[address.band.value] = ++assigned_;
}

void LiveMap::erase(NodeNo node) {
  if (const auto before = jmap_.erase(node)) --live_in_[before->band.value];
}

Part* LiveMap::part_at(const PartAddress& address) {
  const auto part = std::ranges::lower_bound(
      parts_, place_of(address), {}, [](const Part& p) { return place_of(p.address); });
  return part != parts_.end() && part->address == address ? &*part : nullptr;
}

bool LiveMap::has_part_at(LogPlace place) const {
  return std::ranges::binary_search(parts_, place, {},
                                    [](const Part& part) { return place_of(part.address); });
}

const Part* LiveMap::last_part_up_to(LogPlace place) const {
  const auto next = std::ranges::upper_bound(
      parts_, place, {}, [](const Part& part) { return place_of(part.address); });
  return next == parts_.begin() ? nullptr : &*std::prev(next);
}

void LiveMap::void_parts_after(std::uint64_t slot) {
  for (auto part = parts_.rbegin(); part != parts_.rend() && part->address.slot > slot; ++part) {
    part->address.slot = slot;
    part->address.rba = std::numeric_limits<std::uint32_t>::max();  // P1
  }
}

}  // namespace lazyfs::meta
