#include "fs/volume/periodic_thread.h"

#include <new>

#include "base/log.h"
#include "base/thread.h"

namespace lazyfs::fs {

Result<> PeriodicThread::start() {
  MutexLock joining(joining_mu_);
  ASSIGN_OR_RETURN(thread_, start_thread([this] { run(); }));
  return ok();
}

void PeriodicThread::stop() {
  MutexLock joining(joining_mu_);  // P2: a second caller waits until the first has joined
  {
    MutexLock lock(mu_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void PeriodicThread::wake() {
  // Every write calls this, and usually takes no lock. The step that resets woken_ sees what was
  // done before the call (P3).
  if (woken_.exchange(true)) return;
  MutexLock lock(mu_);
  changed_.notify_one();
}

void PeriodicThread::run() {
  bool more = false;
  for (;;) {
    {
      MutexLock lock(mu_);
      if (!stopping_ && !more && !woken_) changed_.wait_for(mu_, period_);
      if (stopping_) return;
    }
    more = try_step(woken_.exchange(false));
  }
}

// If memory lacks, the next step comes a period later.
bool PeriodicThread::try_step(bool woken) try {
  return step_(woken);
} catch (const std::bad_alloc&) {
  log::error("work in the background waits: {}", describe(Errc::kNoMemory));
  return false;
}

}  // namespace lazyfs::fs
