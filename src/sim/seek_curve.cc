#include "sim/seek_curve.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace lazyfs::sim {

SeekCurve::SeekCurve(std::vector<Point> points) : points_(std::move(points)) {
  CHECK(!points_.empty());
  CHECK(points_.front().first == 1);
  CHECK(std::ranges::is_sorted(points_, {}, &Point::first));
}

SeekCurve SeekCurve::from_figures(std::uint32_t cylinders, double single_ms, double mean_ms,
                                  double full_ms) {
  const double third = cylinders / 3.0;
  const double slope = (mean_ms - single_ms) / (std::sqrt(third) - 1);
  std::vector<Point> points;
  for (double distance = 1; distance < third; distance = std::ceil(distance * 1.25)) {
    points.emplace_back(static_cast<std::uint32_t>(distance),
                        single_ms + slope * (std::sqrt(distance) - 1));
  }
  points.emplace_back(static_cast<std::uint32_t>(third), mean_ms);
  points.emplace_back(cylinders, full_ms);
  return SeekCurve(std::move(points));
}

double SeekCurve::time_ms(std::uint32_t distance) const {
  if (distance == 0) return 0;
  const auto after = std::ranges::lower_bound(points_, distance, {}, &Point::first);
  if (after == points_.end()) return points_.back().second;
  if (after->first == distance) return after->second;
  const Point& before = *(after - 1);  // the first point has distance 1
  return before.second + (after->second - before.second) * (distance - before.first) /
                             (after->first - before.first);
}

double SeekCurve::mean_ms(std::uint32_t cylinders) const {
  double sum = 0;
  for (std::uint32_t distance = 1; distance < cylinders; ++distance) {
    sum += 2 * time_ms(distance) * (cylinders - distance);
  }
  return sum / cylinders / cylinders;
}

}  // namespace lazyfs::sim
