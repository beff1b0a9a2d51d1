// The arm, the heads and the rotating platters of a disk: how long positioning and transfers take.
// Not thread-safe.
//
// Invariants:
//   M1  the platters turn evenly from time 0 on: at time t angle t / revolution_ms is under the
//       heads
//   M2  the heads are where the last transfer ended
#pragma once

#include <cstdint>
#include <memory>

#include "sim/geometry.h"
#include "sim/seek_curve.h"

namespace lazyfs::sim {

struct MechanicsParameters {
  double revolution_ms = 0;
  double head_switch_ms = 0;
  double write_settle_ms = 0;  // added to each positioning for a write
  // The least time that positioning for a read takes, also on the same track.
  double least_read_ms = 0;
  SeekCurve seeks{{{1, 0.0}}};
};

struct SeekCounters {
  std::uint64_t seeks = 0;      // moves of the arm
  std::uint64_t cylinders = 0;  // the sum of their distances
};

class Mechanics {
 public:
  Mechanics(const Geometry& geometry, const MechanicsParameters& parameters)
      : geometry_(geometry), parameters_(parameters) {}

  // Brings the heads to the start of the sector. Returns the time when it begins to pass.
  double position(double now_ms, std::uint64_t sector, bool for_writing);
  // Reads or writes from where the heads are. Returns the time when the last sector has passed.
  // REQUIRES: position() has just brought the heads to `first`, or the last transfer ended there.
  double transfer(double now_ms, std::uint64_t first, std::uint64_t count);
  // position() for a write or a read, and transfer().
  double access(double now_ms, std::uint64_t first, std::uint64_t count, bool for_writing);

  // Puts the heads at the sector, after work whose time was counted elsewhere.
  void rest_at(std::uint64_t sector);

  // The time in which one sector passes, at the place of `sector`.
  double sector_ms(std::uint64_t sector) const;
  // Bytes a second that pass under a head at the place of `sector`, without changes of tracks.
  double media_rate(std::uint64_t sector) const;
  std::uint32_t cylinder() const { return cylinder_; }
  const Geometry& geometry() const { return geometry_; }
  const MechanicsParameters& parameters() const { return parameters_; }
  const SeekCounters& counters() const { return counters_; }

 private:
  double move_ms(const Place& to, bool for_writing) const;
  void count_move(std::uint32_t cylinder);

  const Geometry& geometry_;
  const MechanicsParameters parameters_;
  std::uint32_t cylinder_ = 0, surface_ = 0;
  SeekCounters counters_;
};

}  // namespace lazyfs::sim
