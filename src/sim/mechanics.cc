#include "sim/mechanics.h"

#include <algorithm>
#include <cmath>

namespace lazyfs::sim {

double Mechanics::move_ms(const Place& to, bool for_writing) const {
  double time = 0;
  if (to.cylinder != cylinder_) {
    const auto [low, high] = std::minmax(to.cylinder, cylinder_);
    time = parameters_.seeks.time_ms(high - low);
  } else if (to.surface != surface_) {
    time = parameters_.head_switch_ms;
  }
  if (for_writing) return time + parameters_.write_settle_ms;
  return std::max(time, parameters_.least_read_ms);
}

void Mechanics::count_move(std::uint32_t cylinder) {
  if (cylinder == cylinder_) return;
  const auto [low, high] = std::minmax(cylinder, cylinder_);
  ++counters_.seeks;
  counters_.cylinders += high - low;
}

double Mechanics::position(double now_ms, std::uint64_t sector, bool for_writing) {
  const Place to = geometry_.place(sector);
  const double there = now_ms + move_ms(to, for_writing);
  count_move(to.cylinder);
  cylinder_ = to.cylinder;
  surface_ = to.surface;
  const double turned = there / parameters_.revolution_ms;
  const double ahead = to.angle - (turned - std::floor(turned));
  return there + (ahead < 0 ? ahead + 1 : ahead) * parameters_.revolution_ms;
}

double Mechanics::transfer(double now_ms, std::uint64_t first, std::uint64_t count) {
  const Place last = geometry_.place(first + count - 1);
  cylinder_ = last.cylinder;
  surface_ = last.surface;
  return now_ms + geometry_.revolutions(first, count) * parameters_.revolution_ms;
}

double Mechanics::access(double now_ms, std::uint64_t first, std::uint64_t count,
                         bool for_writing) {
  return transfer(position(now_ms, first, for_writing), first, count);
}

void Mechanics::rest_at(std::uint64_t sector) {
  const Place place = geometry_.place(sector);
  count_move(place.cylinder);
  cylinder_ = place.cylinder;
  surface_ = place.surface;
}

double Mechanics::sector_ms(std::uint64_t sector) const {
  return parameters_.revolution_ms / geometry_.track_sectors_of(sector);
}

double Mechanics::media_rate(std::uint64_t sector) const {
  return 512.0 * geometry_.track_sectors_of(sector) / parameters_.revolution_ms * 1000;
}

}  // namespace lazyfs::sim
