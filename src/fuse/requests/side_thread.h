// A thread for work that waits for other requests, such as a notification that makes the kernel
// send dirty pages. If the transport's workers did such work, all of them could be waiting, and
// none would be left to handle these other requests.
#pragma once

#include <deque>
#include <functional>
#include <new>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"

namespace lazyfs::fuse {

// Runs jobs one after the other. Thread-safe; mu_ is a leaf lock.
class SideThread {
 public:
  SideThread() = default;
  ~SideThread() { finish(); }
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // Begins the thread, which otherwise the first job does. Errors: those of start_thread().
  Result<> start() EXCLUDES(mu_);
  // `job` must not throw. False: the job is not run, because finish() was called, no thread could
  // begin, or memory is exhausted.
  template <class Job>
  bool run(Job&& job) noexcept EXCLUDES(mu_) {
    try {
      return add(std::forward<Job>(job));
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  // Refuses further jobs, and returns when all jobs are done. REQUIRES: the requests that jobs wait
  // for are still served; the caller is no job, and no other thread calls finish() meanwhile.
  void finish() EXCLUDES(mu_);

 private:
  bool add(std::function<void()> job) EXCLUDES(mu_);
  Result<> start_locked() REQUIRES(mu_);
  void work() EXCLUDES(mu_);

  Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> jobs_ GUARDED_BY(mu_);
  bool ends_ GUARDED_BY(mu_) = false;
  std::thread thread_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::fuse
