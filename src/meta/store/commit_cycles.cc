#include "meta/store/commit_cycles.h"

#include <utility>

#include "base/clock.h"

namespace lazyfs::meta {
namespace {

// The limits of the time that a commit waits for callers.
constexpr std::chrono::nanoseconds kMinGathering = std::chrono::milliseconds(2);
constexpr std::chrono::nanoseconds kMaxGathering = std::chrono::milliseconds(10);

}  // namespace

// Also notifies threads that wait for a transaction to be sealed: perhaps no other thread will.
Result<> CommitCycles::check_locked() {
  if (!failure_.has_failed() && !abandoned_) return ok();
  moved_.notify_all();
  return fail(failure_.has_failed() ? Errc::kLogFailed : Errc::kShutDown);
}

void CommitCycles::begin_locked(bool commits) {
  busy_ = true;
  if (!commits) return;
  ++commits_started_;
  served_ = std::exchange(callers_, 0);
}

// Waits for the callers that are expected. REQUIRES: busy_.
void CommitCycles::gather_locked() {
  const auto end =
      system_clock().monotonic() + std::clamp(commit_average_, kMinGathering, kMaxGathering);
  while (callers_ < expected_ && !abandoned_) {
    const auto left = end - system_clock().monotonic();
    if (left.count() <= 0) return;
    joined_.wait_for(mu_, left);
  }
}

Result<CommitCycles::Turn> CommitCycles::begin_commit() {
  MutexLock lock(mu_);
  const std::uint64_t ticket = commits_started_ + 1;
  if (++callers_ >= expected_) joined_.notify_one();
  while (busy_ && !abandoned_ && commits_ended_ < ticket) moved_.wait(mu_);
  TRY(check_locked());
  if (commits_ended_ >= ticket) return Turn::kShared;
  busy_ = true;
  gather_locked();
  if (auto may_begin = check_locked(); !may_begin) {
    busy_ = false;
    return fail(may_begin.error());
  }
  begin_locked(true);
  return Turn::kMine;
}

Result<CommitCycles::Turn> CommitCycles::begin_or_wait(bool commits) {
  MutexLock lock(mu_);
  const bool waits = busy_;
  const std::uint64_t ended = ended_;
  while (busy_ && !abandoned_ && ended_ == ended) moved_.wait(mu_);
  TRY(check_locked());
  if (waits) return Turn::kShared;
  begin_locked(commits);
  return Turn::kMine;
}

Result<> CommitCycles::begin_alone() {
  MutexLock lock(mu_);
  while (busy_ && !abandoned_) moved_.wait(mu_);
  TRY(check_locked());
  begin_locked(false);
  return ok();
}

void CommitCycles::end(std::uint64_t took_ns) {
  {
    MutexLock lock(mu_);
    busy_ = false;
    ++ended_;
    commits_ended_ = commits_started_;
    commit_ns_max_ = std::max(commit_ns_max_, took_ns);
    if (served_ > 0) expected_ = std::exchange(served_, 0) + callers_;
    commit_average_ = (3 * commit_average_ + std::chrono::nanoseconds(took_ns)) / 4;
  }
  moved_.notify_all();
}

void CommitCycles::note_sealed(Seq seq) {
  {
    MutexLock lock(mu_);
    sealed_seq_ = seq;
  }
  moved_.notify_all();
}

Result<> CommitCycles::wait_until_sealed(Seq seq) {
  MutexLock lock(mu_);
  while (sealed_seq_ < seq && !failure_.has_failed() && !abandoned_) moved_.wait(mu_);
  return check_locked();
}

void CommitCycles::abandon() {
  MutexLock lock(mu_);
  abandoned_ = true;
  moved_.notify_all();
  joined_.notify_all();
  while (busy_) moved_.wait(mu_);
}

CommitCycles::Figures CommitCycles::figures() const {
  MutexLock lock(mu_);
  return {served_ + callers_, commit_ns_max_};
}

}  // namespace lazyfs::meta
