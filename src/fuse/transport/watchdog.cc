#include "fuse/transport/watchdog.h"

#include <memory>
#include <utility>

namespace lazyfs::fuse {
namespace {

constexpr int kIdleTicksBeforeSleep = 40;  // longer than CpuLatencyLimit lasts

}  // namespace

void Watchdog::start() {
  // Opened here: the confined process may open nothing for writing.
  auto limit = std::make_unique<CpuLatencyLimit>(latency_);
  thread_ = std::thread([this, mine = std::move(limit)] { watch(*mine); });
}

void Watchdog::ask_to_end() {
  MutexLock lock(mu_);
  ends_ = true;
  wake_.notify_all();
}

void Watchdog::stop() {
  ask_to_end();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::watch(CpuLatencyLimit& limit) {
  int idle_ticks = 0;
  for (;;) {
    {
      MutexLock lock(mu_);
      if (ends_) return;
      if (idle_ticks < kIdleTicksBeforeSleep) {
        wake_.wait_for(mu_, tick_);
      } else {
        sleeps_ = true;
        wake_.wait(mu_);
        sleeps_ = false;
        idle_ticks = 0;
      }
      if (ends_) return;
    }
    const Seen seen = look_();
    idle_ticks = seen.moved ? 0 : idle_ticks + 1;
    limit.observe(seen.requests);
    latency_limits_ = limit.times_set();
  }
}

void Watchdog::wake_sleeping() {
  MutexLock lock(mu_);
  wake_.notify_one();
}

}  // namespace lazyfs::fuse
