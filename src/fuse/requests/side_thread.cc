#include "fuse/requests/side_thread.h"

#include <utility>

#include "base/thread.h"

namespace lazyfs::fuse {

Result<> SideThread::start() {
  MutexLock lock(mu_);
  return start_locked();
}

Result<> SideThread::start_locked() {
  if (thread_.joinable()) return ok();
  ASSIGN_OR_RETURN(thread_, start_thread([this] { work(); }));
  return ok();
}

bool SideThread::add(std::function<void()> job) {
  MutexLock lock(mu_);
  if (ends_ || !start_locked()) return false;
  jobs_.push_back(std::move(job));
  changed_.notify_one();
  return true;
}

void SideThread::finish() {
  std::thread thread;
  {
    MutexLock lock(mu_);
    ends_ = true;
    thread = std::move(thread_);
    changed_.notify_one();
  }
  if (thread.joinable()) thread.join();
}

void SideThread::work() {
  for (;;) {
    std::function<void()> job;
    {
      MutexLock lock(mu_);
      while (jobs_.empty() && !ends_) changed_.wait(mu_);
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace lazyfs::fuse
