#include "meta/store/applier.h"

#include "meta/store/tree_reader.h"

namespace lazyfs::meta {

Result<Seq> Applier::apply(const Batch& batch, Reserve reserve, std::uint64_t rounds) {
  ASSIGN_OR_RETURN(std::vector<Change> changes, coalesce(batch));
  MissLoader missing(loader_);
  std::uint64_t rounds_left = rounds;
  for (;;) {
    if (failure_.has_failed()) return fail(Errc::kLogFailed);
    ASSIGN_OR_RETURN(const Attempt attempt, try_once(batch, changes, reserve));
    if (attempt.is_applied) return attempt.seq;
    if (attempt.miss) {
      TRY(missing.load(*attempt.miss));
    } else {
      if (attempt.obstacle == Obstacle::kTooLarge) return fail(Errc::kBatchTooLarge);
      if (rounds_left-- == 0) {
        // The cleaner gains nothing. A band more is room for it to work in.
        if (attempt.obstacle != Obstacle::kMustClean) return fail(Errc::kLogFull);
        TRY(make_room_(Obstacle::kMustGrow, attempt.seq));
        rounds_left = rounds;
        continue;
      }
      TRY(make_room_(attempt.obstacle, attempt.seq));
    }
  }
}

Result<Applier::Attempt> Applier::try_once(const Batch& batch, std::vector<Change>& changes,
                                           Reserve reserve) {
  WriterLock lock(tree_.mu);
  const Changes& running = tree_.cache.running();
  Attempt attempt{.seq = running.seq};
  const auto estimate = tree_.tree.plan(changes);
  if (!estimate) {
    attempt.miss = estimate.error();
    return attempt;
  }
  attempt.obstacle = obstacle_to(*estimate, reserve);
  if (attempt.obstacle != Obstacle::kNone) return attempt;
  if (!tree_.tree.apply(changes)) {
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
    case Reserve::kPromised: return limits.live_promised;
    case Reserve::kNone: break;
  }
  const std::uint64_t promised = std::min(tree_.promised_nodes(), limits.live_promised);
  return std::min(limits.live_ordinary, limits.live_promised - promised);
}

Applier::Obstacle Applier::obstacle_to(const Estimate& estimate, Reserve reserve) const {
  const LogLimits limits = tree_.limits;
  const Changes& running = tree_.cache.running();
  if (limits.cost(estimate.dirty, estimate.freed) > limits.transaction) return Obstacle::kTooLarge;
  if (estimate.made > 0 && tree_.cache.nodes() + estimate.made > nodes_allowed(reserve)) {
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
