#include "fs/volume/periodic_thread.h"

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
    more = step_(woken_.exchange(false));
  }
}

}  // namespace lazyfs::fs
