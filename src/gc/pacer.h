// When a volume cleans, and how long its writers wait: applies the policies of gc/trigger.h to the
// band table and to the requests that arrive.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "data/band_table.h"
#include "gc/trigger.h"

namespace lazyfs::gc {

struct PacerOptions {
  bool on_idle = true, on_space = true;  // which triggers are used
  std::uint8_t low_percent = 30, high_percent = 10;
  IdleLimits idle;  // when the idle trigger counts users as idle
};

// Thread-safe.
class Pacer {
 public:
  Pacer(const data::BandTable& bands, const PacerOptions& options, Clock& clock);

  void set_options(const PacerOptions& options);

  // The caller calls it for each request that reads or changes file data, or removes a name.
  void note_request() {
    last_request_.store(clock_.monotonic().count(), std::memory_order_relaxed);
  }
  // Whether no such request has come for IdleLimits::pause.
  bool is_quiet() const;
  // What the space trigger asks for.
  CleanPriority priority() const;
  // The idle trigger: whether users are idle, and cleaning now saves them from waiting for it
  // later. REQUIRES: one thread alone calls it, regularly.
  bool is_idle_cleaning_due();
  // How long a write of `blocks` must wait before it begins. Counts the blocks as arrived.
  std::chrono::nanoseconds delay(std::uint64_t blocks);

 private:
  struct Triggers {  // read by each write
    bool on_idle, on_space;
    std::uint8_t low_percent, high_percent;
  };
  struct Room {
    std::uint64_t blocks = 0;  // can be appended without cleaning
    std::uint64_t dead_blocks = 0;
    Thresholds limits;
    CleanPriority priority() const { return clean_priority(blocks, dead_blocks, limits); }
  };
  Room room() const;
  std::chrono::nanoseconds since_last_request() const;

  const data::BandTable& bands_;
  std::atomic<Triggers> triggers_;
  std::atomic<std::chrono::nanoseconds> quiet_for_, pause_;
  std::atomic<double> rate_below_;
  Clock& clock_;
  std::atomic<std::int64_t> last_request_{0};
  std::atomic<std::uint64_t> arrived_blocks_{0};
  // Of the thread that calls is_idle_cleaning_due().
  double arrival_rate_ = 0;
  std::uint64_t arrived_before_ = 0;
  std::chrono::nanoseconds averaged_until_{0};
};

}  // namespace lazyfs::gc
