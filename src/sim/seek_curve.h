// How long the arm of a disk takes for a distance. A value: thread-safe.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace lazyfs::sim {

class SeekCurve {
 public:
  using Point = std::pair<std::uint32_t, double>;  // cylinders, milliseconds

  // Measured points; values between them are interpolated linearly, a distance past the last one
  // takes the time of the last one. REQUIRES: distances rise from point to point; the first is 1.
  explicit SeekCurve(std::vector<Point> points);
  // A curve through three figures of a data sheet: a + b * sqrt(distance) to a third of the stroke,
  // which takes the mean time, then straight on to the full stroke.
  static SeekCurve from_figures(std::uint32_t cylinders, double single_ms, double mean_ms,
                                double full_ms);

  // The time for a distance; 0 for 0.
  double time_ms(std::uint32_t distance) const;
  // The mean over all pairs of `cylinders` cylinders, each as likely as the others.
  double mean_ms(std::uint32_t cylinders) const;

 private:
  std::vector<Point> points_;
};

}  // namespace lazyfs::sim
