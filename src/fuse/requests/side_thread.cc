#include "fuse/requests/side_thread.h"

#include <utility>

namespace lazyfs::fuse {

bool SideThread::run(std::function<void()> job) {
  MutexLock lock(mu_);
  if (ends_) return false;
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
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
