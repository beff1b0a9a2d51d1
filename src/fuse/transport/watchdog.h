// The thread of a transport that looks every tick (a millisecond) for requests that take long, and
// limits the wake-up latency of CPUs while requests come in quick succession (CpuLatencyLimit). It
// sleeps while no request comes.
//
// Invariant: a look follows after sleeps_ was set and before the thread sleeps. So either that look
// finds a request which begins meanwhile, or the request's thread finds sleeps_ set in wake().
// Thread-safe; mu_ is a leaf lock, and is not held over a look.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"
#include "fuse/transport/cpu_latency.h"

namespace lazyfs::fuse {

class Watchdog {
 public:
  struct Seen {
    bool moved = false;          // a request has begun or ended, or was found to take long
    std::uint64_t requests = 0;  // begun since the last look
  };
  using Look = std::function<Seen()>;  // on the watchdog's thread; must not throw

  Watchdog(CpuLatencyChoice latency, std::chrono::milliseconds tick, Look look)
      : latency_(latency), tick_(tick), look_(std::move(look)) {}
  ~Watchdog() { stop(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Errors: those of start_thread(). REQUIRES: not started before; the process is not confined yet.
  Result<> start();
  // Asks the thread to end, and does not wait for it.
  void ask_to_end() EXCLUDES(mu_);
  // Returns when the thread has ended.
  void stop() EXCLUDES(mu_);
  // A request has begun. REQUIRES: looks find the request from now on, by a value that was stored
  // with memory_order_seq_cst.
  void wake() {
    if (sleeps_.load()) wake_sleeping();
  }
  // Times that the wake-up latency of CPUs was limited.
  std::uint64_t latency_limits() const { return latency_limits_; }

 private:
  void watch(CpuLatencyLimit& limit) EXCLUDES(mu_);
  bool wait() EXCLUDES(mu_);
  bool look(CpuLatencyLimit& limit);
  void wake_sleeping() EXCLUDES(mu_);

  const CpuLatencyChoice latency_;
  const std::chrono::milliseconds tick_;
  const Look look_;
  std::atomic<std::uint64_t> latency_limits_{0};
  std::atomic<bool> sleeps_{false};  // or is about to; wake_sleeping() clears it under mu_
  Mutex mu_;
  CondVar wake_;
  bool ends_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace lazyfs::fuse
