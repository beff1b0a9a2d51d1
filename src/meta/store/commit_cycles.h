// Runs at most one cycle at a time: a commit, a cleaning, a checkpoint, or a change of the log's
// size. The thread that runs the cycle is "the committing thread".
//
// Threads that commit in a loop share flushes. When a commit ends, its callers continue their work
// and call again one after the other. A caller that came during the commit could begin the next
// commit at once, alone. So a commit first waits for as many callers as the last commit served,
// plus those that came while it ran; but not much longer than a commit takes. A single caller never
// waits.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/mutex.h"
#include "base/result.h"
#include "base/types.h"
#include "meta/store/store_failure.h"

namespace lazyfs::meta {

// Thread-safe. No lock is taken while mu_ is held.
class CommitCycles {
 public:
  explicit CommitCycles(const StoreFailure& failure) : failure_(failure) {}

  // kMine: the caller runs a cycle now, and calls end(). kShared: another thread's cycle has done
  // the work.
  enum class Turn { kMine, kShared };
  // Group commit: shared with any commit that begins after the call.
  Result<Turn> begin_commit() EXCLUDES(mu_);
  // If a cycle runs now, waits for its end and returns kShared: the caller checks again whether
  // work is left. `commits`: the cycle writes the running transaction.
  Result<Turn> begin_or_wait(bool commits) EXCLUDES(mu_);
  // Waits for the end of the cycle that runs. The new cycle does not write the running transaction.
  Result<> begin_alone() EXCLUDES(mu_);
  void end(std::uint64_t took_ns) EXCLUDES(mu_);

  // Notes that the transaction takes no more changes.
  void note_sealed(Seq seq) EXCLUDES(mu_);
  Result<> wait_until_sealed(Seq seq) EXCLUDES(mu_);

  // From now on no cycle begins, and callers get kShutDown. Waits for the cycle that runs.
  void abandon() EXCLUDES(mu_);

  struct Figures {
    std::uint64_t commits_waiting = 0;  // calls of begin_commit() that no cycle has served yet
    std::uint64_t commit_ns_max = 0;
  };
  Figures figures() const EXCLUDES(mu_);

 private:
  Result<> check_locked() REQUIRES(mu_);
  void begin_locked(bool commits) REQUIRES(mu_);
  void gather_locked() REQUIRES(mu_);

  const StoreFailure& failure_;
  mutable Mutex mu_;
  CondVar moved_;   // a cycle ended, or sealed a transaction, or the store was abandoned
  CondVar joined_;  // callers_ has reached expected_
  bool busy_ GUARDED_BY(mu_) = false;
  bool abandoned_ GUARDED_BY(mu_) = false;
  std::uint64_t ended_ GUARDED_BY(mu_) = 0;  // cycles
  Seq sealed_seq_ GUARDED_BY(mu_);           // newest transaction that takes no more changes
  std::uint64_t commits_started_ GUARDED_BY(mu_) = 0;
  std::uint64_t commits_ended_ GUARDED_BY(mu_) = 0;
  std::uint64_t commit_ns_max_ GUARDED_BY(mu_) = 0;
  std::uint64_t callers_ GUARDED_BY(mu_) = 0;  // of begin_commit(), that the next commit serves
  std::uint64_t served_ GUARDED_BY(mu_) = 0;    // by the commit that runs
  std::uint64_t expected_ GUARDED_BY(mu_) = 0;  // served_, and callers that came while it ran
  std::chrono::nanoseconds commit_average_ GUARDED_BY(mu_){};
};

}  // namespace lazyfs::meta
