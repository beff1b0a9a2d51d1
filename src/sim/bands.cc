#include "sim/bands.h"

#include <algorithm>

#include "base/check.h"

namespace lazyfs::sim {

Bands::Bands(std::vector<Zone> zones, std::uint64_t sectors) {
  CHECK(!zones.empty());
  for (std::size_t i = 0; i < zones.size(); ++i) {
    const std::uint64_t end = i + 1 < zones.size() ? zones[i + 1].first_sector : sectors;
    CHECK(end > zones[i].first_sector);
    CHECK(zones[i].band_sectors > 0);
    spans_.push_back({zones[i], end, count_});
    const std::uint64_t length = end - zones[i].first_sector;
    count_ += (length + zones[i].band_sectors - 1) / zones[i].band_sectors;
  }
}

Band Bands::of(std::uint64_t sector) const {
  const auto after = std::ranges::upper_bound(
      spans_, sector, {}, [](const Span& span) { return span.zone.first_sector; });
  const Span& span = *(after - 1);
  CHECK(sector < span.end);
  const std::uint64_t index = (sector - span.zone.first_sector) / span.zone.band_sectors;
  const std::uint64_t first = span.zone.first_sector + index * span.zone.band_sectors;
  return {span.first_band + index, first, std::min(span.zone.band_sectors, span.end - first)};
}

}  // namespace lazyfs::sim
