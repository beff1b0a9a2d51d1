// A thread for requests that wait for other requests, such as a notification that makes the kernel
// send dirty pages: were they handled by the transport's workers, all of these could wait, and none
// be left for what they wait for.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace lazyfs::fuse {

// Runs jobs one after the other. Thread-safe; mu_ is a leaf lock.
class SideThread {
 public:
  SideThread() = default;
  ~SideThread() { finish(); }
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // The first call begins the thread. `job` must not throw. False: finish() was called, and the job
  // is not run.
  bool run(std::function<void()> job) EXCLUDES(mu_);
  // Refuses further jobs, and returns when all jobs have been done. REQUIRES: what they wait for is
  // still served. Not from a job; not from two threads at once.
  void finish() EXCLUDES(mu_);

 private:
  void work() EXCLUDES(mu_);

  Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> jobs_ GUARDED_BY(mu_);
  bool ends_ GUARDED_BY(mu_) = false;
  std::thread thread_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::fuse
