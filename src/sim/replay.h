// Replays requests on a volume of simulated disks, and measures. Not thread-safe.
//
// Invariants:
//   R1  with a window, at most `window` requests are issued and not complete; the next one is
//       issued when one completes
//   R2  paced, each request is issued at its own time, however many are not complete
//   R3  a request is complete when all of its pieces are complete
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sim/disk.h"
#include "sim/latencies.h"
#include "sim/queue.h"
#include "sim/request.h"
#include "sim/volume_map.h"

namespace lazyfs::sim {

struct ReplayOptions {
  bool is_paced = false;
  std::uint32_t window = 1;
  // For a window of 1: a request is issued a pause after the end of the one before; its `time_us`
  // is this pause.
  bool is_thinking = false;
  QueuePolicy queue = QueuePolicy::kFcfs;
  std::uint32_t queue_depth = 1;
  std::uint64_t every = 0;   // a Progress for each so many requests; 0: none
  bool with_series = false;  // bytes of each second
  bool keeps_reads = false;  // the time of each read
  std::size_t points = 0;    // about so many requests, spread evenly, are kept with their times
};

struct Traffic {
  std::uint64_t requests = 0, bytes = 0;
};

struct Progress {
  std::uint64_t requests = 0;
  double seconds = 0;
  std::uint64_t bytes = 0;
};

// When a request was complete.
struct Point {
  double seconds = 0;
  Request request;
};

// What was measured. Times are of the simulated disks.
struct ReplayResult {
  double seconds = 0;           // until the last request was complete
  double cleaning_seconds = 0;  // from the last completion until all caches were empty
  // [class][0: reads, 1: writes]
  std::array<std::array<Traffic, 2>, kRequestClasses> traffic{};
  std::uint64_t flushes = 0, discards = 0;
  Latencies latency, read_latency, write_latency;
  std::vector<double> read_times_ms;  // if they are kept
  std::vector<DiskCounters> disks;            // when the last request was complete
  std::vector<DiskCounters> disks_at_end;     // after cleaning
  std::vector<std::uint64_t> disk_requests;   // pieces that each disk has served
  std::vector<Progress> progress;
  std::vector<std::array<std::uint64_t, 2>> series;  // bytes read and written in each second
  std::vector<Point> points;
};

class Replay {
 public:
  // Gives the next request, or nothing at the end.
  using Source = std::function<std::optional<Request>()>;

  // REQUIRES: there is one disk for each of the map's.
  Replay(std::vector<std::unique_ptr<Disk>> disks, const VolumeMap& map,
         const ReplayOptions& options);

  // Replays all requests. REQUIRES: run() was not called before; requests lie within the volume;
  // only flushes have no sectors.
  ReplayResult run(const Source& next);

 private:
  struct Issued {
    Request request;
    double start_ms = 0;
    std::uint32_t pieces = 0;  // that are not complete
  };
  struct Event {
    double time_ms;
    std::uint32_t disk;
    std::uint64_t owner;
    bool operator>(const Event& other) const {
      return time_ms != other.time_ms ? time_ms > other.time_ms : disk > other.disk;
    }
  };
  void issue(double now_ms, const Request& request);
  void add_piece(std::uint64_t owner, std::uint32_t disk, const Request& piece);
  void start_idle_disks(double now_ms);
  void start(double now_ms, std::uint32_t disk);
  void complete(double now_ms, const Issued& issued);
  void count(double now_ms, const Request& request);
  void keep_point(double now_ms, const Request& request);
  // The next request of the source, if it may be issued before the next event.
  bool may_issue(const std::optional<Request>& next, double* at_ms) const;
  void settle();

  std::vector<std::unique_ptr<Disk>> disks_;
  const VolumeMap& map_;
  const ReplayOptions options_;
  std::vector<RequestQueue> queues_;
  std::vector<bool> busy_;
  std::vector<std::uint32_t> touched_;  // disks that have got a piece
  std::vector<Event> events_;           // a heap, the earliest first
  std::vector<Issued> issued_;          // slots
  std::vector<std::uint64_t> free_slots_;
  std::uint64_t outstanding_ = 0, completed_ = 0, bytes_ = 0;
  std::uint64_t point_every_ = 1;  // one request in so many is kept
  double now_ms_ = 0, last_end_ms_ = 0;
  ReplayResult result_;
};

}  // namespace lazyfs::sim
