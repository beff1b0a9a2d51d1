// Continues the deletions and truncations that earlier sessions have left: after a crash, or an
// unmount that did not wait for them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "fs/file/truncation.h"
#include "fs/inode/inode.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Works in small steps in the background, so that a mount need not wait, whatever was left. Until
// it is done the inode table gives each inode that it loads its pending truncation (I7).
//
// Invariants:
//   each orphan record of an earlier session below next_ is finished, or at or past first_failed_,
//   or its inode is queued in OrphanCleanup, in use, or on the dirty list
//   no record past last_ is read: it belongs to a file without a name that this session has made,
//   and that may not be in the inode table yet
// Thread-safe. step_mu_ is held while a step runs: before all tokens and locks of inodes.
class OrphanRecovery {
 public:
  OrphanRecovery(meta::Store& store, InodeTable& inodes, Truncation& truncation, Clock& clock)
      : store_(store), inodes_(inodes), truncation_(truncation), clock_(clock) {}

  // Looks for orphan records. REQUIRES: no operation has begun. Errors: those of reading the tree.
  Result<> begin() EXCLUDES(step_mu_);
  // Whether step() has something to do now. False while it pauses after a failure.
  bool is_due() const {
    return !done_.load(std::memory_order_acquire) && clock_.monotonic() >= due_.load();
  }
  // Queues the next deleted inodes for cleanup, or frees a part of what lies past the end of the
  // next truncated one. An orphan that cannot be read is tried again after all others, and after a
  // pause (fs/file/retry_pause.h). An extent past the end of a file that cannot be freed now is
  // also freed by write-back.
  void step() EXCLUDES(step_mu_);

 private:
  bool continue_one(const meta::Item& item) REQUIRES(step_mu_);
  void end_locked() REQUIRES(step_mu_);
  void end_reading_locked() REQUIRES(step_mu_);
  void note_failure_locked(std::uint64_t inode, Errc error) REQUIRES(step_mu_);

  meta::Store& store_;
  InodeTable& inodes_;
  Truncation& truncation_;
  Clock& clock_;
  std::atomic<bool> done_{true};
  std::atomic<std::chrono::nanoseconds> due_{std::chrono::nanoseconds::min()};
  Mutex step_mu_;
  std::uint64_t next_ GUARDED_BY(step_mu_) = 0;
  std::uint64_t last_ GUARDED_BY(step_mu_) = 0;  // record of an earlier session
  std::uint64_t found_ GUARDED_BY(step_mu_) = 0;    // orphans, each counted once
  std::uint64_t counted_ GUARDED_BY(step_mu_) = 0;  // found_ has all below
  // Of the reading of the records that is under way.
  std::optional<std::uint64_t> first_failed_ GUARDED_BY(step_mu_);
  int failures_ GUARDED_BY(step_mu_) = 0;  // readings that ended with a failure
};

}  // namespace lazyfs::fs
