#include "fuse/transport/watchdog.h"

#include <memory>
#include <utility>

#include "base/thread.h"

namespace lazyfs::fuse {
namespace {

constexpr int kIdleTicksBeforeSleep = 40;  // longer than CpuLatencyLimit lasts

}  // namespace

Result<> Watchdog::start() {
  // Opened here: the confined process may open nothing for writing.
  auto limit = std::make_unique<CpuLatencyLimit>(latency_);
  ASSIGN_OR_RETURN(thread_, start_thread([this, mine = std::move(limit)] { watch(*mine); }));
  return ok();
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
  for (int idle_ticks = 0; wait();) {
    idle_ticks = look(limit) ? 0 : idle_ticks + 1;
    if (idle_ticks < kIdleTicksBeforeSleep) continue;
    idle_ticks = 0;
    sleeps_ = true;
    if (look(limit)) sleeps_ = false;
  }
}

// Returns after a tick, or when wake() has ended the sleep. False: the thread shall end.
bool Watchdog::wait() {
  MutexLock lock(mu_);
  if (!sleeps_ && !ends_) wake_.wait_for(mu_, tick_);
  while (sleeps_ && !ends_) wake_.wait(mu_);
  return !ends_;
}

// True: a request moved.
bool Watchdog::look(CpuLatencyLimit& limit) {
  const Seen seen = look_();
  limit.observe(seen.requests);
  latency_limits_ = limit.times_set();
  return seen.moved;
}

void Watchdog::wake_sleeping() {
  MutexLock lock(mu_);
  sleeps_ = false;
  wake_.notify_one();
}

}  // namespace lazyfs::fuse
