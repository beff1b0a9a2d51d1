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
  if (woken_.load(std::memory_order_relaxed)) return;  // of every write: usually no lock is taken
  MutexLock lock(mu_);
  woken_ = true;
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
