// A host-managed shingled disk: a zone is written at its pointer only. A write elsewhere is refused
// and counted. Not thread-safe.
//
// Invariants, besides those of Disk:
//   H1  an accepted write begins at its zone's pointer, which then moves to the write's end
//   H2  discarding a whole zone sets its pointer back to its start
#pragma once

#include <unordered_map>

#include "sim/mechanical_disk.h"

namespace lazyfs::sim {

struct HostManagedParameters : PlatterParameters {
  std::uint64_t zone_sectors = 0;  // of what is reset as a whole
  double command_ms = 0;
};

class HostManagedDisk final : public MechanicalDisk {
 public:
  explicit HostManagedDisk(HostManagedParameters parameters);

  double serve(double now_ms, const Request& request) override;
  double settle(double now_ms) override { return now_ms; }
  DiskCounters counters() const override;

 private:
  double read(double now_ms, const Request& request);
  double write(double now_ms, const Request& request);
  void reset_zones(const Request& request);

  const HostManagedParameters parameters_;
  std::unordered_map<std::uint64_t, std::uint64_t> pointers_;  // of zones that are not empty
  std::uint64_t write_end_ = UINT64_MAX;  // a write here needs no seek
  std::uint64_t refused_ = 0;
};

}  // namespace lazyfs::sim
