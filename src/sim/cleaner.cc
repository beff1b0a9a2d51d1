#include "sim/cleaner.h"

#include <algorithm>

namespace lazyfs::sim {

CleaningCost cleaning_cost(const PersistentCache::DirtyBand& dirty, const Geometry& geometry,
                           std::uint64_t shift, double revolution_ms,
                           const CleaningParameters& parameters) {
  const std::uint64_t first = parameters.is_static ? dirty.first_sector : dirty.band.first_sector;
  const std::uint64_t length = dirty.band.end() - first;
  CleaningCost cost;
  cost.moved_sectors = 2 * length;
  if (parameters.is_static) cost.moved_sectors += length - dirty.sectors;
  const double pass_ms = geometry.revolutions(shift + first, length) * revolution_ms;
  const double passes = static_cast<double>(cost.moved_sectors) / static_cast<double>(length);
  const double sorted = static_cast<double>(std::min(dirty.extents, parameters.sorted_extents));
  const double further = static_cast<double>(dirty.extents) - sorted;
  // Moves of the heads: to the cache, and to the band for writing. If the cache does not hold all
  // of the band, also to the band for reading, and to the scratch area (static mapping).
  int positions = 2;
  if (dirty.sectors < length) positions += parameters.is_static ? 2 : 1;
  const double one_by_one_ms =
      sorted * parameters.extent_ms + further * parameters.further_extent_ms;
  cost.time_ms = positions * parameters.position_ms + passes * pass_ms +
                 std::min(parameters.scan_ms, one_by_one_ms);
  return cost;
}

bool Cleaner::begin() {
  const auto oldest = cache_.oldest();
  if (!oldest) return false;
  job_ = Job{*oldest, cleaning_cost(*oldest, mechanics_.geometry(), shift_,
                                    mechanics_.parameters().revolution_ms, parameters_)};
  return true;
}

void Cleaner::complete() {
  cache_.clean(job_->dirty.band);
  ++counters_.bands;
  counters_.moved_sectors += job_->cost.moved_sectors;
  job_.reset();
}

double Cleaner::work(double at_most_ms) {
  double worked = 0;
  while (worked < at_most_ms && (job_ || begin())) {
    const double part = std::min(at_most_ms - worked, job_->cost.time_ms - job_->done_ms);
    worked += part;
    job_->done_ms += part;
    if (job_->done_ms >= job_->cost.time_ms) complete();
  }
  return worked;
}

double Cleaner::earned_extents() const {
  return job_ ? static_cast<double>(job_->dirty.extents) * job_->share() : 0;
}

double Cleaner::earned_log_sectors() const {
  return job_ ? static_cast<double>(job_->dirty.log_sectors) * job_->share() : 0;
}

}  // namespace lazyfs::sim
