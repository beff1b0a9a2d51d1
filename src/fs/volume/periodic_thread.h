// A background thread that does one step whenever it is woken or a period has passed.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"

namespace lazyfs::fs {

// Invariants:
//   P1  steps run one at a time, on the thread that start() began
//   P2  after stop() has returned, on whichever thread, no step runs or begins
//   P3  a wake() is followed by a step that begins later, unless the thread is stopped
// Thread-safe. mu_ is a leaf lock. joining_mu_ is held while the thread is joined, so a step must
// not call stop().
class PeriodicThread {
 public:
  // `step(woken)`: `woken` says that wake() was called since the last step. True asks for another
  // step at once.
  PeriodicThread(std::chrono::milliseconds period, std::function<bool(bool woken)> step)
      : period_(period), step_(std::move(step)) {}
  ~PeriodicThread() { stop(); }
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

  // Errors: those of start_thread(). REQUIRES: called at most once.
  Result<> start() EXCLUDES(joining_mu_);
  void stop() EXCLUDES(joining_mu_, mu_);
  void wake() EXCLUDES(mu_);

 private:
  bool try_step(bool woken);
  void run() EXCLUDES(mu_);

  const std::chrono::milliseconds period_;
  const std::function<bool(bool)> step_;
  Mutex joining_mu_;
  std::thread thread_ GUARDED_BY(joining_mu_);
  std::atomic<bool> woken_{false};
  Mutex mu_;
  CondVar changed_;
  bool stopping_ GUARDED_BY(mu_) = false;
};

}  // namespace lazyfs::fs
