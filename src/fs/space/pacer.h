// Joins gc's policies to a volume: what the room for appends is, how urgent cleaning is, how long a
// write waits first, whether users are idle.
#pragma once

#include <atomic>
#include <chrono>

#include "base/clock.h"
#include "data/band_table.h"
#include "fs/volume/mount_options.h"
#include "gc/trigger.h"

namespace lazyfs::fs {

// Thread-safe.
class Pacer {
 public:
  Pacer(const data::BandTable& bands, const MountOptions& options, Clock& clock)
      : bands_(bands), options_(options), clock_(clock) {}

  // To be called for each request that reads or changes file data, or removes a name.
  void note_request() {
    last_request_.store(clock_.monotonic().count(), std::memory_order_relaxed);
  }
  // No such request has come for a moment.
  bool is_quiet() const;
  gc::Urgency urgency() const;
  // Users are idle, and cleaning now saves them from waiting for it later (thesis, section 6.3.1).
  // To be called by one thread, again and again.
  bool is_idle_work_due();
  // How long a write of so many blocks is to wait first.
  std::chrono::nanoseconds delay(std::uint64_t blocks);

 private:
  struct Room {
    data::SpaceCounts space;
    std::uint64_t room_blocks = 0;  // can be appended without cleaning
    gc::Thresholds limits;
  };
  Room look() const;

  const data::BandTable& bands_;
  const MountOptions& options_;
  Clock& clock_;
  std::atomic<std::int64_t> last_request_{0};
  std::atomic<std::uint64_t> arrived_blocks_{0};
  // Of the thread that asks for idle work.
  double arrival_rate_ = 0;
  std::uint64_t arrived_before_ = 0;
  std::chrono::nanoseconds looked_at_{0};
};

}  // namespace lazyfs::fs
