// Making changes (meta/store/store_impl.h).
#include "meta/store/store_impl.h"

namespace lazyfs::meta {

Result<Seq> StoreImpl::apply(const Batch& batch, Reserve reserve) {
  if (options_.read_only) return fail(Errc::kReadOnly);
  ASSIGN_OR_RETURN(std::vector<Change> changes, fold(batch));
  std::vector<NodePin> pins;
  NodeNo missing{};
  for (std::uint64_t rounds = clean_cycles_at_most() + 16;;) {
    if (failed()) return fail(Errc::kLogFailed);
    Miss miss;
    Verdict verdict = Verdict::kAdmit;
    Seq running_seq;
    {
      WriterLock lock(tree_mu_);
      const auto estimate = tree_.plan(changes);
      if (estimate) {
        verdict = admit(*estimate, reserve);
        running_seq = cache_.running().seq;
        if (verdict == Verdict::kAdmit) {
          if (!tree_.apply(changes)) {
            fail_for_ever(Errc::kNodeBad, "a change of a tree that contradicts itself");
            return fail(Errc::kNodeBad);
          }
          const Changes& running = cache_.running();
          if (running.dirty.size() > large_nodes_ && options_.background) wake_background();
          return running.empty() ? Seq{running.seq.value - 1} : running.seq;
        }
      } else {
        miss = estimate.error();
      }
    }
    if (verdict == Verdict::kAdmit) {
      TRY(load_missing(miss, missing, pins));
    } else {
      if (rounds-- == 0) return fail(Errc::kLogFull);
      TRY(make_room(verdict, running_seq));
    }
  }
}

StoreImpl::Verdict StoreImpl::admit(const Estimate& estimate, Reserve reserve) const {
  const Changes& running = cache_.running();
  if (limits_.cost(estimate.dirty, estimate.freed) > limits_.transaction) {
    return Verdict::kTooLarge;
  }
  const std::uint64_t limit =
      reserve == Reserve::kDelete ? limits_.live_max : limits_.live_ordinary;
  if (estimate.made > 0 && cache_.nodes() + estimate.made > limit) return Verdict::kGrowFirst;
  const std::uint64_t dirty = running.dirty.size() + estimate.dirty;
  const std::uint64_t cost = limits_.cost(dirty, running.freed.size() + estimate.freed);
  if (cost > limits_.transaction) {
    return running.empty() ? Verdict::kTooLarge : Verdict::kCommitFirst;
  }
  if (!limits_.admits(cost, log_.space())) return Verdict::kCleanFirst;
  return dirty > crowd_nodes_ && !running.empty() ? Verdict::kCommitFirst : Verdict::kAdmit;
}

// Does what stands between a change and its place. The caller looks again afterwards.
Result<> StoreImpl::make_room(Verdict verdict, Seq running) {
  switch (verdict) {
    case Verdict::kAdmit: return ok();
    case Verdict::kTooLarge: return fail(Errc::kBatchTooLarge);
    case Verdict::kCommitFirst: return wait_for_next_transaction(running);
    case Verdict::kCleanFirst: return run_cycle(Work::kClean);
    case Verdict::kGrowFirst: return run_cycle(Work::kGrow);
  }
  return ok();
}

}  // namespace lazyfs::meta
