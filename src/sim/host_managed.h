// A host-managed shingled disk: zones that are written at their pointers only. A write elsewhere is
// refused, and counted. Not thread-safe.
//
// Invariants, besides those of Disk:
//   H1  a write that is taken begins at its zone's pointer, which then moves to the write's end
//   H2  discarding a whole zone sets its pointer back to its start
#pragma once

#include <unordered_map>

#include "sim/disk.h"
#include "sim/read_buffer.h"

namespace lazyfs::sim {

struct HostManagedParameters {
  std::uint32_t surfaces = 0;
  std::vector<Zone> zones;
  std::uint64_t sectors = 0;
  std::uint64_t zone_sectors = 0;  // of what is reset as a whole
  MechanicsParameters mechanics;
  ReadBufferParameters buffer;
  double command_ms = 0, bus_sector_ms = 0;
};

class HostManagedDisk final : public Disk {
 public:
  explicit HostManagedDisk(HostManagedParameters parameters);

  double serve(double now_ms, const Request& request) override;
  double settle(double now_ms) override { return now_ms; }
  std::uint64_t sectors() const override { return parameters_.sectors; }
  std::uint32_t cylinder() const override { return mechanics_.cylinder(); }
  std::uint32_t cylinder_of(std::uint64_t sector) const override {
    return geometry_.cylinder_of(sector);
  }
  DiskCounters counters() const override;

 private:
  double read(double now_ms, const Request& request);
  double write(double now_ms, const Request& request);
  void reset_zones(const Request& request);

  const HostManagedParameters parameters_;
  const Geometry geometry_;
  Mechanics mechanics_;
  ReadBuffer buffer_;
  std::unordered_map<std::uint64_t, std::uint64_t> pointers_;  // of zones that are not empty
  std::uint64_t write_end_ = UINT64_MAX;  // a write here needs no seek
  std::uint64_t refused_ = 0;
};

}  // namespace lazyfs::sim
