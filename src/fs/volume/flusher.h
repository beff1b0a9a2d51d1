// Writes dirty data back and commits at intervals, in the background.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>

#include "base/clock.h"
#include "fs/file/write_back.h"
#include "fs/volume/periodic_thread.h"
#include "fs/volume/throttle.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Invariants:
//   F1  data that was dirty when a commit of this thread began, and older than the interval, was
//       written back before it, or its inode keeps the error, or another thread held the inode's
//       token
//   F2  on_read_only is called at most once, after the store has failed
// Thread-safe.
class Flusher {
 public:
  // `on_read_only` may be empty. It must not call stop().
  Flusher(meta::Store& store, WriteBack& write_back, Throttle& throttle, Clock& clock,
          std::chrono::nanoseconds commit_interval, std::function<void()> on_read_only);

  void set_commit_interval(std::chrono::nanoseconds interval) { commit_interval_ = interval; }

  Result<> start() { return thread_.start(); }
  void stop() { thread_.stop(); }
  void wake() { thread_.wake(); }
  // Does the write-back that is due, without a commit, on the caller's thread. For mounts without
  // threads.
  void run_once();

 private:
  void step();
  void write_old(bool everything);
  void report_if_read_only();

  meta::Store& store_;
  WriteBack& write_back_;
  Throttle& throttle_;
  Clock& clock_;
  std::atomic<std::chrono::nanoseconds> commit_interval_;
  const std::function<void()> on_read_only_;
  std::atomic<bool> reported_{false};
  std::chrono::nanoseconds last_commit_;  // of the thread
  PeriodicThread thread_;                 // last: it ends before what it uses
};

}  // namespace lazyfs::fs
