#include "meta/store/applier.h"

#include "meta/store/tree_reader.h"

namespace lazyfs::meta {

thread_local Applier::Need Applier::t_refused;

Result<Seq> Applier::try_apply(const Batch& batch, Reserve reserve) {
  ASSIGN_OR_RETURN(std::vector<Change> changes, coalesce(batch));
  MissLoader missing(loader_);
  for (;;) {
    if (failure_.has_failed()) return fail(Errc::kLogFailed);
    ASSIGN_OR_RETURN(const Attempt attempt, try_once(batch, changes, reserve));
    if (attempt.is_applied) return attempt.seq;
    if (attempt.miss) {
      TRY(missing.load(*attempt.miss));
    } else {
      if (attempt.obstacle == Obstacle::kTooLarge) return fail(Errc::kBatchTooLarge);
      t_refused = attempt.need;
      return fail(Errc::kMustWait);
    }
  }
}

Applier::Blocked Applier::look(const Need& need) const {
  ReaderLock lock(tree_.mu);
  return {obstacle_to(need), tree_.cache.running().seq};
}

Result<> Applier::make_room(std::uint64_t rounds) {
  const Need need = t_refused;
  std::uint64_t rounds_left = rounds;
  for (;;) {
    if (failure_.has_failed()) return fail(Errc::kLogFailed);
    const Blocked blocked = look(need);
    if (blocked.obstacle == Obstacle::kNone) return ok();
    if (rounds_left-- > 0) {
      TRY(make_room_(blocked.obstacle, blocked.running));
      continue;
    }
    // The cleaner gains nothing. One more band gives it room to work in.
    if (blocked.obstacle != Obstacle::kMustClean) return fail(Errc::kLogFull);
    TRY(make_room_(Obstacle::kMustGrow, blocked.running));
    rounds_left = rounds;
  }
}

Found<TreePlan> Applier::plan(std::vector<Change>& changes) const {
  ReaderLock lock(tree_.mu);
  return tree_.tree.plan(changes);
}

Result<Applier::Attempt> Applier::try_once(const Batch& batch, std::vector<Change>& changes,
                                           Reserve reserve) {
  auto plan = this->plan(changes);
  Attempt attempt;
  if (!plan) {
    attempt.miss = plan.error();
    return attempt;
  }
  WriterLock lock(tree_.mu);
  const Changes& running = tree_.cache.running();
  attempt.seq = running.seq;
  if (!tree_.tree.is_current(*plan)) {
    plans_repeated_.fetch_add(1, std::memory_order_relaxed);
    plan = tree_.tree.plan(changes);
    if (!plan) {
      attempt.miss = plan.error();
      return attempt;
    }
  }
  attempt.need = {.estimate = plan->estimate, .reserve = reserve};
  attempt.obstacle = obstacle_to(attempt.need);
  if (attempt.obstacle != Obstacle::kNone) return attempt;
  const Estimate& needed = plan->estimate;
  tree_.cache.provide(needed.dirty, needed.made, needed.freed);
  if (!tree_.tree.apply(changes, *plan)) {
    failure_.set(Errc::kNodeBad, "a change of a tree that contradicts itself",
                 Seq{running.seq.value - 1});
    return fail(Errc::kNodeBad);
  }
  tree_.brought.add(batch);
  if (running.dirty.size() > tree_.low_watermark) commit_is_due_();
  attempt.is_applied = true;
  if (running.empty()) --attempt.seq.value;
  return attempt;
}

std::uint64_t Applier::nodes_allowed(Reserve reserve) const {
  const LogLimits limits = tree_.limits;
  switch (reserve) {
    case Reserve::kDelete: return limits.live_max;
    case Reserve::kPunch: return limits.live_punched;
    case Reserve::kPromised: return limits.live_promised;
    case Reserve::kNone: break;
  }
  const std::uint64_t promised = std::min(tree_.promised_nodes(), limits.live_promised);
  return std::min(limits.live_ordinary, limits.live_promised - promised);
}

Applier::Obstacle Applier::obstacle_to(const Need& need) const {
  const Estimate& estimate = need.estimate;
  const LogLimits limits = tree_.limits;
  const Changes& running = tree_.cache.running();
  if (limits.cost(estimate.dirty, estimate.freed) > limits.transaction) return Obstacle::kTooLarge;
  if (estimate.made > 0 && tree_.cache.nodes() + estimate.made > nodes_allowed(need.reserve)) {
    return Obstacle::kMustGrow;
  }
  const std::uint64_t dirty = running.dirty.size() + estimate.dirty;
  const std::uint64_t cost = limits.cost(dirty, running.freed.size() + estimate.freed);
  if (cost > limits.transaction) {
    return running.empty() ? Obstacle::kTooLarge : Obstacle::kMustCommit;
  }
  if (!limits.admits(cost, log_.space())) return Obstacle::kMustClean;
  const bool is_high = dirty > tree_.high_watermark && !running.empty();
  return is_high ? Obstacle::kMustCommit : Obstacle::kNone;
}

}  // namespace lazyfs::meta
