// A conventional disk: a sector can be written at any time, in its place. Reads pass a buffer with
// read-ahead; writes are reported when they are in the write-back cache, and reach the platters
// (destaging) in the disk's own time, in the order of their arrival. Not thread-safe.
//
// Invariants, besides those of Disk:
//   C1  writes that wait for destaging hold at most `write_sectors` sectors
//   C2  if the drive joins writes, a write that continues the last waiting one becomes part of that
//       one
#pragma once

#include <deque>

#include "sim/mechanical_disk.h"

namespace lazyfs::sim {

// The controller's time for a request, by the kind of the request before it.
struct Overheads {
  double after_read_ms = 0, after_write_ms = 0;
  double after(Op before) const { return before == Op::kWrite ? after_write_ms : after_read_ms; }
};

struct ConventionalParameters : PlatterParameters {
  std::uint64_t write_sectors = 0;  // of the write-back cache
  bool joins_writes = false;        // that wait for destaging and follow each other
  Overheads read_hit, read_miss, write_hit, write_miss;
  // A read hit that skips sectors takes this much longer.
  double skip_ms = 0;
};

class ConventionalDisk final : public MechanicalDisk {
 public:
  explicit ConventionalDisk(ConventionalParameters parameters);

  double serve(double now_ms, const Request& request) override;
  double settle(double now_ms) override;
  DiskCounters counters() const override;

 private:
  struct Waiting {
    std::uint64_t sector, sectors;
    double since_ms;
  };
  double read(double now_ms, const Request& request);
  double write(double now_ms, const Request& request);
  void queue_write(double now_ms, const Request& request);
  // Writes the waiting writes that begin before `now_ms`.
  void destage_until(double now_ms);
  void destage_one(double not_before_ms);
  bool is_waiting(const Request& request) const;
  double bus_ms(const Request& request) const {
    return request.sectors * parameters_.bus_sector_ms;
  }

  const ConventionalParameters parameters_;
  std::deque<Waiting> waiting_;
  std::uint64_t waiting_sectors_ = 0;
  double heads_free_ms_ = 0;  // when the last destaging or reading ends
  std::uint64_t last_write_end_ = 0;
  Op before_ = Op::kRead;
};

}  // namespace lazyfs::sim
