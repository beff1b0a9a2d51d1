#include "meta/clean_policy.h"

#include <algorithm>

namespace lazyfs::meta {

std::optional<CleanChoice> choose_victim(std::span<const BandLive> bands, bool may_adopt) {
  if (bands.empty()) return std::nullopt;
  const BandLive& emptiest = *std::ranges::min_element(bands, {}, &BandLive::live);
  const BandLive& oldest = bands.front();
  if (oldest.is_cold) return CleanChoice{.slot = emptiest.slot};
  const CleanChoice move_oldest{.slot = oldest.slot, .is_oldest_hot = true};
  if (oldest.live <= emptiest.live) return move_oldest;
  if (emptiest.is_cold) return CleanChoice{.slot = emptiest.slot};
  if (oldest.live <= 2 * emptiest.live) return move_oldest;
  if (!may_adopt || 2 * oldest.live < oldest.blocks) return move_oldest;
  return CleanChoice{CleanChoice::Kind::kAdopt, oldest.slot, true};
}

}  // namespace lazyfs::meta
