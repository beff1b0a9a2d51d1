#include "sim/host_managed.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lazyfs::sim {

HostManagedDisk::HostManagedDisk(HostManagedParameters parameters)
    : MechanicalDisk(parameters, 0), parameters_(std::move(parameters)) {}

double HostManagedDisk::serve(double now_ms, const Request& request) {
  CHECK(request.end() <= sectors());
  now_ms += parameters_.command_ms;
  switch (request.op) {
    case Op::kRead: return read(now_ms, request);
    case Op::kWrite: return write(now_ms, request);
    case Op::kFlush: break;  // a write is on the platters when it is complete
    case Op::kDiscard: reset_zones(request); break;
  }
  return now_ms;
}

double HostManagedDisk::read(double now_ms, const Request& request) {
  write_end_ = UINT64_MAX;
  const double bus_ms = request.sectors * parameters_.bus_sector_ms;
  if (const auto hit = buffer_.find(now_ms, request.sector, request.sectors)) {
    return std::max(now_ms, hit->ready_ms) + bus_ms;
  }
  buffer_.stop(now_ms);
  const double start = mechanics_.position(now_ms, request.sector, false);
  buffer_.filled(start, request.sector, request.sectors);
  return mechanics_.transfer(start, request.sector, request.sectors) + bus_ms;
}

double HostManagedDisk::write(double now_ms, const Request& request) {
  const std::uint64_t zone = request.sector / parameters_.zone_sectors;
  const auto found = pointers_.find(zone);
  const std::uint64_t pointer =
      found == pointers_.end() ? zone * parameters_.zone_sectors : found->second;
  if (request.sector != pointer || request.end() > (zone + 1) * parameters_.zone_sectors) {
    ++refused_;
    return now_ms;
  }
  pointers_[zone] = request.end();
  buffer_.clear();
  if (write_end_ != request.sector) now_ms = mechanics_.position(now_ms, request.sector, true);
  write_end_ = request.end();
  return mechanics_.transfer(now_ms, request.sector, request.sectors);
}

void HostManagedDisk::reset_zones(const Request& request) {
  const std::uint64_t size = parameters_.zone_sectors;
  for (std::uint64_t zone = (request.sector + size - 1) / size;
       (zone + 1) * size <= request.end(); ++zone) {
    pointers_.erase(zone);
  }
}

DiskCounters HostManagedDisk::counters() const {
  DiskCounters counters;
  counters.seeks = mechanics_.counters();
  counters.refused = refused_;
  return counters;
}

}  // namespace lazyfs::sim
