#include "sim/managed.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lazyfs::sim {
namespace {

std::vector<Bands::Zone> band_zones(const ManagedParameters& parameters) {
  const Geometry geometry(parameters.surfaces, parameters.zones,
                          parameters.sectors + parameters.cache_sectors);
  std::vector<Bands::Zone> zones;
  std::uint32_t track_sectors = 0;
  // Zones are found by the size of their tracks; a step is short enough to hit each of them.
  const std::uint64_t step = std::max<std::uint64_t>(1, parameters.sectors / 100'000);
  for (std::uint64_t sector = 0; sector < parameters.sectors; sector += step) {
    const std::uint32_t here = geometry.track_sectors_of(parameters.cache_sectors + sector);
    if (here == track_sectors) continue;
    track_sectors = here;
    zones.push_back({sector, std::uint64_t{here} * parameters.band_tracks});
  }
  return zones;
}

// Which share of `all` is in use and not earned by cleaning (L2). One request may exceed `all`, and
// what was overwritten since its cleaning began is earned all the same.
double used_share(std::uint64_t used, double earned, std::uint64_t all) {
  return std::clamp((static_cast<double>(used) - earned) / static_cast<double>(all), 0.0, 1.0);
}

}  // namespace

ManagedDisk::ManagedDisk(ManagedParameters parameters)
    : MechanicalDisk(parameters, parameters.cache_sectors),
      parameters_(std::move(parameters)),
      bands_(band_zones(parameters_), parameters_.sectors),
      detector_(parameters_.stream_bytes),
      cache_(bands_, parameters_.cache_sectors),
      cleaner_(cache_, mechanics_, parameters_.cache_sectors, parameters_.cleaning) {}

double ManagedDisk::serve(double now_ms, const Request& request) {
  CHECK(request.end() <= sectors());
  now_ms = work_while_idle(now_ms);
  switch (request.op) {
    case Op::kRead: free_ms_ = read(now_ms, request); break;
    case Op::kWrite: free_ms_ = write(now_ms, request); break;
    case Op::kFlush: free_ms_ = flush(now_ms); break;
    case Op::kDiscard: free_ms_ = discard(now_ms, request); break;
  }
  return free_ms_;
}

double ManagedDisk::work_while_idle(double now_ms) {
  const double start = free_ms_ + parameters_.idle_ms;
  if (now_ms <= start) return now_ms;
  if (run_ || batch_.writes > 0) free_ms_ = close_batch(cache_run(start));
  if (now_ms > free_ms_ && cache_.dirty_bands() > 0) {
    buffer_.clear();
    stream_end_ = UINT64_MAX;
    cleaner_.work(now_ms - std::max(start, free_ms_));
  }
  return std::max(now_ms, free_ms_);
}

double ManagedDisk::command_ms() {
  return ++commands_ % parameters_.slow_each == 0 ? parameters_.slow_command_ms
                                                  : parameters_.command_ms;
}

double ManagedDisk::slice_ms() {
  return ++slices_ % parameters_.long_slice_each == 0 ? parameters_.long_slice_ms
                                                      : parameters_.slice_ms;
}

double ManagedDisk::read(double now_ms, const Request& request) {
  now_ms += command_ms();
  stream_end_ = UINT64_MAX;
  std::uint64_t sector = request.sector;
  while (sector < request.end()) {
    if (run_ && run_->sector <= sector && sector < run_->end) {  // in memory
      sector = std::min(run_->end, request.end());
      continue;
    }
    std::uint64_t end = request.end();
    if (run_ && run_->sector > sector) end = std::min(end, run_->sector);
    const auto piece = cache_.find(sector, end - sector);
    now_ms = read_piece(now_ms, piece);
    sector += piece.sectors;
  }
  return now_ms + request.sectors * parameters_.bus_sector_ms;
}

double ManagedDisk::read_piece(double now_ms, const PersistentCache::Piece& piece) {
  if (piece.log_sector) {
    buffer_.stop(now_ms);
    const std::uint64_t at = *piece.log_sector % parameters_.cache_sectors;
    const std::uint64_t sectors = std::min(piece.sectors, parameters_.cache_sectors - at);
    return mechanics_.access(now_ms, at, sectors, false);
  }
  const std::uint64_t at = parameters_.cache_sectors + piece.sector;
  const auto sectors = static_cast<std::uint32_t>(piece.sectors);
  if (const auto hit = buffer_.find(now_ms, at, sectors)) {
    return std::max(now_ms, hit->ready_ms);
  }
  buffer_.stop(now_ms);
  const double start = mechanics_.position(now_ms, at, false);
  buffer_.filled(start, at, sectors);
  return mechanics_.transfer(start, at, sectors);
}

double ManagedDisk::write(double now_ms, const Request& request) {
  buffer_.clear();
  double done = now_ms + command_ms();
  if (run_ && run_->end != request.sector) done = cache_run(done);
  const auto verdict = detector_.note_write(request.sector, request.sectors);
  const bool is_stream =
      verdict.is_stream ||
      (verdict.is_synced_sequence && counters_.full_since_ms >= 0 &&
       is_full(1, request.sectors + parameters_.flush_waste_sectors));
  if (is_stream) {
    const std::uint64_t from = run_ ? run_->sector : request.sector;
    run_.reset();
    return stream(done, from, request.end() - from);
  }
  if (!run_) run_ = Run{request.sector, request.sector, verdict.is_synced};
  run_->end = request.end();
  const std::uint64_t bytes = (run_->end - run_->sector) * kSectorBytes;
  if (bytes >= parameters_.stream_bytes) done = cache_run(done);
  return done;
}

double ManagedDisk::stream(double now_ms, std::uint64_t sector, std::uint64_t sectors) {
  cache_.forget(sector, sectors);
  const std::uint64_t at = parameters_.cache_sectors + sector;
  if (stream_end_ != sector) now_ms = mechanics_.position(now_ms, at, true);
  stream_end_ = sector + sectors;
  counters_.streamed_bytes += sectors * kSectorBytes;
  wrote_stream_ = true;
  return mechanics_.transfer(now_ms, at, sectors);
}

double ManagedDisk::synced_transfers(std::uint64_t sectors) const {
  const std::uint64_t once = std::min(sectors, parameters_.flush_waste_sectors);
  const double more = parameters_.synced_transfers * static_cast<double>(sectors - once);
  return (static_cast<double>(once) + more) / static_cast<double>(sectors);
}

double ManagedDisk::cache_run(double now_ms) {
  if (!run_) return now_ms;
  const Run run = *std::exchange(run_, std::nullopt);
  detector_.note_cache_write();
  const double transfers = run.is_synced ? synced_transfers(run.end - run.sector) : 1;
  for (std::uint64_t sector = run.sector; sector < run.end;) {
    const std::uint64_t end = std::min(run.end, bands_.of(sector).end());
    now_ms = cache_part(now_ms, sector, end - sector, transfers);
    sector = end;
  }
  return now_ms;
}

double ManagedDisk::cache_part(double now_ms, std::uint64_t sector, std::uint64_t sectors,
                               double transfers) {
  now_ms = wait_for_space(now_ms, sector, sectors);
  cache_.write(sector, sectors);
  const std::uint64_t bytes = sectors * kSectorBytes;
  const double rate = mechanics_.media_rate(0) / 1000;
  batch_.transfer_ms += transfers * static_cast<double>(bytes) / rate;
  ++batch_.writes;
  batch_.bytes += bytes;
  counters_.cached_bytes += bytes;
  wrote_cache_ = true;
  const bool is_complete =
      batch_.writes >= parameters_.batch_writes || batch_.bytes >= parameters_.batch_bytes;
  return is_complete ? close_batch(now_ms) : now_ms;
}

double ManagedDisk::close_batch(double now_ms) {
  if (batch_.writes == 0) return now_ms;
  const Batch batch = std::exchange(batch_, Batch{});
  stream_end_ = UINT64_MAX;
  const auto pieces = std::max<std::uint64_t>(1, batch.bytes / parameters_.batch_bytes);
  const double busy = static_cast<double>(pieces) * parameters_.batch_ms + batch.transfer_ms;
  mechanics_.rest_at(0);
  if (parameters_.cleaning_time == CleaningTime::kAlways) {
    const double fill = std::min(cache_fill(), 0.99);
    now_ms += cleaner_.work(busy * parameters_.always_share * (0.5 + fill / (1 - fill)));
  }
  return now_ms + busy;
}

double ManagedDisk::cache_fill() const {
  return std::max(
      static_cast<double>(cache_.used_sectors()) / static_cast<double>(parameters_.cache_sectors),
      static_cast<double>(cache_.extents()) / static_cast<double>(parameters_.map_extents));
}

bool ManagedDisk::is_full(std::uint64_t extents, std::uint64_t sectors) const {
  const double map = static_cast<double>(cache_.extents() + extents) - cleaner_.earned_extents();
  const double log =
      static_cast<double>(cache_.used_sectors() + sectors) - cleaner_.earned_log_sectors();
  return map > static_cast<double>(parameters_.map_extents) ||
         log > static_cast<double>(parameters_.cache_sectors);
}

double ManagedDisk::wait_for_space(double now_ms, std::uint64_t sector, std::uint64_t sectors) {
  const std::uint64_t extents = cache_.new_extents(sector, sectors);
  // Each slice cleans; it ends when no dirty band is left.
  while (is_full(extents, sectors) && cache_.dirty_bands() > 0) {
    if (counters_.full_since_ms < 0) counters_.full_since_ms = now_ms;
    stream_end_ = UINT64_MAX;
    now_ms += cleaner_.work(slice_ms());
  }
  return now_ms;
}

double ManagedDisk::flush(double now_ms) {
  now_ms = close_batch(cache_run(now_ms + command_ms()));
  detector_.note_flush();
  if (wrote_stream_) now_ms += parameters_.batch_ms;
  if (wrote_stream_ || wrote_cache_) stream_end_ = UINT64_MAX;
  if (wrote_cache_) {
    cache_.skip(parameters_.flush_waste_sectors);
    if (++flushes_ % parameters_.map_write_flushes == 0) now_ms += parameters_.map_write_ms;
  }
  wrote_cache_ = wrote_stream_ = false;
  return now_ms;
}

double ManagedDisk::discard(double now_ms, const Request& request) {
  now_ms = cache_run(now_ms + command_ms());
  cache_.forget(request.sector, request.sectors);
  return now_ms;
}

double ManagedDisk::settle(double now_ms) {
  free_ms_ = close_batch(cache_run(std::max(now_ms, free_ms_)));
  // Each step cleans a second's worth; the loop ends when no dirty band is left.
  while (cache_.dirty_bands() > 0) free_ms_ += cleaner_.work(1000);
  return free_ms_;
}

DiskCounters ManagedDisk::counters() const {
  DiskCounters counters = counters_;
  counters.seeks = mechanics_.counters();
  counters.band_rewrites = cleaner_.counters().bands;
  counters.moved_bytes = cleaner_.counters().moved_sectors * kSectorBytes;
  counters.map_extents = cache_.extents();
  counters.cache_fill = std::max(used_share(cache_.used_sectors(), cleaner_.earned_log_sectors(),
                                            parameters_.cache_sectors),
                                 used_share(cache_.extents(), cleaner_.earned_extents(),
                                            parameters_.map_extents));
  return counters;
}

}  // namespace lazyfs::sim
