#include "sim/geometry.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace lazyfs::sim {

Geometry::Geometry(std::uint32_t surfaces, std::vector<Zone> zones, std::uint64_t sectors)
    : surfaces_(surfaces), sectors_(sectors) {
  std::uint64_t available = 0;
  for (const Zone& zone : zones) {
    available += std::uint64_t{zone.cylinders} * surfaces * zone.track_sectors -
                 zone.spare_sectors;
  }
  CHECK(sectors > 0);
  CHECK(available >= sectors);
  const double share = static_cast<double>(sectors) / static_cast<double>(available);
  std::uint64_t next = 0;
  for (const Zone& zone : zones) {
    const std::uint64_t all = std::uint64_t{zone.cylinders} * surfaces * zone.track_sectors;
    auto held = static_cast<std::uint64_t>(
        std::llround(static_cast<double>(all - zone.spare_sectors) * share));
    if (&zone == &zones.back()) held = sectors - next;  // what rounding has left
    spans_.push_back({zone, next, held, static_cast<double>(all) / static_cast<double>(held)});
    next += held;
    cylinders_ = zone.first_cylinder + zone.cylinders;
  }
}

Geometry::Slot Geometry::slot(std::uint64_t sector) const {
  CHECK(sector < sectors_);
  const auto after = std::ranges::upper_bound(spans_, sector, {}, &Span::first_sector);
  const Span& span = *(after - 1);
  const auto physical = static_cast<std::uint64_t>(
      static_cast<double>(sector - span.first_sector) * span.stretch);
  return {&span, physical / span.zone.track_sectors, physical % span.zone.track_sectors};
}

Place Geometry::place(std::uint64_t sector) const {
  const auto [span, track, offset] = slot(sector);
  const Zone& zone = span->zone;
  const std::uint64_t cylinder = track / surfaces_;
  const std::uint64_t skew =
      (track - cylinder) * zone.track_skew + cylinder * zone.cylinder_skew;
  Place place;
  place.cylinder = zone.first_cylinder + static_cast<std::uint32_t>(cylinder);
  place.surface = static_cast<std::uint32_t>(track % surfaces_);
  place.track_sectors = zone.track_sectors;
  place.angle = static_cast<double>((offset + skew) % zone.track_sectors) / zone.track_sectors;
  return place;
}

std::uint32_t Geometry::cylinder_of(std::uint64_t sector) const { return place(sector).cylinder; }

std::uint32_t Geometry::track_sectors_of(std::uint64_t sector) const {
  return slot(sector).span->zone.track_sectors;
}

double Geometry::revolutions_in(const Span& span, std::uint64_t first,
                                std::uint64_t count) const {
  const Slot from = slot(first), last = slot(first + count - 1);
  const Zone& zone = span.zone;
  const std::uint64_t tracks = last.track - from.track;
  const std::uint64_t cylinders = last.track / surfaces_ - from.track / surfaces_;
  const std::uint64_t passed = last.track * zone.track_sectors + last.offset -
                               from.track * zone.track_sectors - from.offset + 1;
  const std::uint64_t skew =
      (tracks - cylinders) * zone.track_skew + cylinders * zone.cylinder_skew;
  return static_cast<double>(passed + skew) / zone.track_sectors;
}

double Geometry::revolutions(std::uint64_t first, std::uint64_t count) const {
  CHECK(count > 0);
  double sum = 0;
  while (count > 0) {
    const Span& span = *slot(first).span;
    const std::uint64_t part = std::min(count, span.first_sector + span.sectors - first);
    sum += revolutions_in(span, first, part);
    first += part;
    count -= part;
  }
  return sum;
}

}  // namespace lazyfs::sim
