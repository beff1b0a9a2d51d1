#include "sim/conventional.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lazyfs::sim {
namespace {

// Writes that lie this close to the last one go to the same segment of the write-back cache.
constexpr std::uint64_t kSameSegmentSectors = 2000;

}  // namespace

ConventionalDisk::ConventionalDisk(ConventionalParameters parameters)
    : MechanicalDisk(parameters, 0), parameters_(std::move(parameters)) {}

double ConventionalDisk::serve(double now_ms, const Request& request) {
  CHECK(request.end() <= sectors());
  destage_until(now_ms);
  switch (request.op) {
    case Op::kRead: return read(now_ms, request);
    case Op::kWrite: return write(now_ms, request);
    case Op::kFlush: return settle(now_ms);
    case Op::kDiscard: return now_ms + parameters_.read_hit.after(before_);
  }
  return now_ms;
}

double ConventionalDisk::read(double now_ms, const Request& request) {
  const Op before = std::exchange(before_, Op::kRead);
  if (is_waiting(request)) {
    return now_ms + parameters_.read_hit.after(before) + bus_ms(request);
  }
  if (const auto hit = buffer_.find(now_ms, request.sector, request.sectors)) {
    double ready = now_ms + parameters_.read_hit.after(before);
    if (!hit->continues && before == Op::kRead) ready += parameters_.skip_ms;
    return std::max(ready, hit->ready_ms) + bus_ms(request);
  }
  buffer_.stop(now_ms);
  const double command = now_ms + parameters_.read_miss.after(before);
  const double start =
      mechanics_.position(std::max(command, heads_free_ms_), request.sector, false);
  const double on_media = mechanics_.transfer(start, request.sector, request.sectors);
  buffer_.filled(start, request.sector, request.sectors);
  heads_free_ms_ = on_media;
  // The bus transfers each sector once it is in the buffer, and the slower of the two sets the
  // pace.
  const double sector_ms = mechanics_.sector_ms(request.sector);
  return std::max(on_media + parameters_.bus_sector_ms, start + sector_ms + bus_ms(request));
}

double ConventionalDisk::write(double now_ms, const Request& request) {
  const Op before = std::exchange(before_, Op::kWrite);
  buffer_.stop(now_ms);
  buffer_.clear();
  const std::uint64_t gap = request.sector > last_write_end_ ? request.sector - last_write_end_
                                                             : last_write_end_ - request.sector;
  last_write_end_ = request.end();
  if (waiting_sectors_ + request.sectors <= parameters_.write_sectors) {
    // A write far from the last one begins a segment of the cache, as the first one after a read
    // does.
    const bool same_segment = before == Op::kWrite && gap < kSameSegmentSectors;
    const double done = now_ms + bus_ms(request) +
                        parameters_.write_hit.after(same_segment ? Op::kWrite : Op::kRead);
    queue_write(done, request);
    return done;
  }
  double done = now_ms + parameters_.write_miss.after(before) + bus_ms(request);
  while (!waiting_.empty() &&
         waiting_sectors_ + request.sectors > parameters_.write_sectors) {
    destage_one(waiting_.front().since_ms);
    done = std::max(done, heads_free_ms_);
  }
  queue_write(done, request);
  return done;
}

void ConventionalDisk::queue_write(double now_ms, const Request& request) {
  waiting_sectors_ += request.sectors;
  if (parameters_.joins_writes && !waiting_.empty()) {
    Waiting& last = waiting_.back();
    if (last.sector + last.sectors == request.sector) {  // C2
      last.sectors += request.sectors;
      return;
    }
  }
  waiting_.push_back({request.sector, request.sectors, now_ms});
}

bool ConventionalDisk::is_waiting(const Request& request) const {
  return std::ranges::any_of(waiting_, [&](const Waiting& one) {
    return one.sector <= request.sector && request.end() <= one.sector + one.sectors;
  });
}

void ConventionalDisk::destage_one(double not_before_ms) {
  const Waiting one = waiting_.front();
  waiting_.pop_front();
  const double start = std::max({heads_free_ms_, one.since_ms, not_before_ms});
  heads_free_ms_ = mechanics_.access(start, one.sector, one.sectors, true);
  waiting_sectors_ -= one.sectors;
}

void ConventionalDisk::destage_until(double now_ms) {
  while (!waiting_.empty() && std::max(heads_free_ms_, waiting_.front().since_ms) < now_ms) {
    destage_one(0);
  }
}

double ConventionalDisk::settle(double now_ms) {
  while (!waiting_.empty()) destage_one(0);
  return std::max(now_ms, heads_free_ms_);
}

DiskCounters ConventionalDisk::counters() const {
  DiskCounters counters;
  counters.seeks = mechanics_.counters();
  return counters;
}

}  // namespace lazyfs::sim
