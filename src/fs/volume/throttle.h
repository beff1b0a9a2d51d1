// Makes writers wait before a write: for the garbage collector when space is short, and for memory
// when too much file data is dirty.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/time_histogram.h"
#include "data/page_pool.h"
#include "fs/inode/inode.h"
#include "gc/pacer.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Invariants:
//   T1  passes_ counts the write-back passes that have ended; last_pass_ is the latest one's result
//   T2  after stop() no thread waits here: waiting calls return soon, later ones at once
//   T3  owed_ns_ = sum of the writes' delays that no writer has waited for yet. The writer whose
//       delay makes it long enough for a pause waits for all of it
// Thread-safe. mu_ is a leaf lock; a thread that waits here holds no other lock.
class Throttle {
 public:
  // What the throttle asks of other parts; none is called with a lock held.
  struct Requests {
    std::function<void()> write_back_soon;  // does not block
    std::function<void()> clean_soon;       // does not block
    std::function<Result<>()> write_back;   // writes back all dirty data on the caller's thread
  };
  // `limit_bytes` of dirty file data make writers wait, but a write that has been admitted may go
  // past it. `background`: other threads write back and clean; else `write_back` is used.
  Throttle(gc::Pacer& pacer, const data::PagePool& pages, const meta::Store& store, Clock& clock,
           TimeHistogram& stalls, std::size_t limit_bytes, bool background, Requests requests);

  void set_limit(std::size_t bytes) { limit_pages_ = bytes / kBlockBytes; }

  // To be called before `bytes` are written to `file`. Under space pressure each write waits a
  // little, longer the less space is left, so that no write waits for a whole band. When memory is
  // full of data that cannot be written back, fails with the error of writing this file back, if
  // there is one. Else the write goes past the limit, or fails with kMemoryFull if too many have.
  Result<> admit(const Inode& file, std::size_t bytes) EXCLUDES(mu_);

  void pages_freed() EXCLUDES(mu_);                       // notifies writers that wait for memory
  void pass_ended(const Result<>& result) EXCLUDES(mu_);  // of the background's write-back
  // Waits for `time` or until stop(). False after stop().
  bool pause(std::chrono::nanoseconds time) EXCLUDES(mu_);
  void stop() EXCLUDES(mu_);
  // Dirty data takes more than an eighth of the limit: it is written back although it is young.
  bool is_much_dirty() const { return pages_.used() > limit_pages_ / 8; }

 private:
  Result<> admit_alone(const Inode& file);
  Result<> admit_past_limit(const Inode& file) const;
  void pay(std::chrono::nanoseconds delay) EXCLUDES(mu_);
  Result<> wait_for_memory(const Inode& file) EXCLUDES(mu_);
  Result<> wait_for_pages(const Inode& file) EXCLUDES(mu_);

  gc::Pacer& pacer_;
  const data::PagePool& pages_;
  const meta::Store& store_;
  Clock& clock_;
  TimeHistogram& stalls_;
  std::atomic<std::size_t> limit_pages_;
  const bool background_;
  const Requests requests_;
  std::atomic<std::int64_t> owed_ns_{0};

  Mutex mu_;
  CondVar freed_;    // pages were given back, or stop()
  CondVar stopped_;  // stop()
  bool stopping_ GUARDED_BY(mu_) = false;
  std::uint64_t passes_ GUARDED_BY(mu_) = 0;
  Result<> last_pass_ GUARDED_BY(mu_) = ok();
};

}  // namespace lazyfs::fs
