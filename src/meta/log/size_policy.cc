#include "meta/log/size_policy.h"

#include <algorithm>

#include "meta/log/log_layout.h"

namespace lazyfs::meta {

SizeChange choose_size_change(const LogSize& log, SpaceDemand demand) {
  if (log.bands.empty()) return SizeChange::kKeep;  // every band has failed
  const auto limits = [&](std::span<const std::uint32_t> bands) {
    return limits_of(bands, log.transaction_blocks, log.has_rescue_band, log.has_cold_bands);
  };
  const LogLimits now = limits(log.bands);
  if (now.should_grow(log.live) || log.bands.size() < log.bands_min) return SizeChange::kGrow;
  if (log.bands.size() <= log.bands_min) return SizeChange::kKeep;
  std::vector<std::uint32_t> fewer_bands = log.bands;
  fewer_bands.erase(std::ranges::max_element(fewer_bands));
  const LogLimits fewer = limits(fewer_bands);
  const bool is_roomy = demand == SpaceDemand::kShortage ? log.live * 10 < fewer.live_max * 6
                                                         : log.live * 3 < fewer.live_max;
  if (!is_roomy) return SizeChange::kKeep;
  const std::uint64_t needed = now.band + fewer.low_water(log.live);
  if (log.available > needed && log.free_bands > 0) return SizeChange::kShrink;
  const bool cleaning_helps = now.achievable(log.live) > needed + now.band;
  return cleaning_helps ? SizeChange::kCleanFirst : SizeChange::kKeep;
}

}  // namespace lazyfs::meta
