// A simulated disk: how long each request takes. Not thread-safe.
//
// Invariants of every disk:
//   D1  requests are served one after the other; the end of one is not before its start
//   D2  between requests the disk continues its own work (read-ahead, destaging, cleaning) up to
//       the start of the next one
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/mechanics.h"
#include "sim/request.h"

namespace lazyfs::sim {

struct DiskCounters {
  SeekCounters seeks;  // those of requests, not of cleaning
  std::uint64_t refused = 0;         // writes that a host-managed disk does not take
  std::uint64_t band_rewrites = 0;   // bands cleaned
  std::uint64_t moved_bytes = 0;     // read and written by cleaning
  std::uint64_t cached_bytes = 0;    // written into the persistent cache
  std::uint64_t streamed_bytes = 0;  // written past the persistent cache
  std::uint64_t map_extents = 0;     // in the persistent cache now
  double cache_fill = 0;             // share of the persistent cache in use now, 0 to 1
  double full_since_ms = -1;         // when the persistent cache was first full; -1: never
};

class Disk {
 public:
  virtual ~Disk() = default;

  // Serves a request that begins now. Returns the time when the host knows that it is complete.
  // REQUIRES: now_ms is not before the end of the request before; request.end() <= sectors().
  virtual double serve(double now_ms, const Request& request) = 0;
  // Works until no write waits in any cache. Returns the time of the end.
  virtual double settle(double now_ms) = 0;

  virtual std::uint64_t sectors() const = 0;
  // Where the arm is, and where a sector lies: for a queue that orders requests.
  virtual std::uint32_t cylinder() const = 0;
  virtual std::uint32_t cylinder_of(std::uint64_t sector) const = 0;
  virtual DiskCounters counters() const = 0;
};

}  // namespace lazyfs::sim
