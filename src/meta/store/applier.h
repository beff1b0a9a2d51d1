// Makes changes: plans them, admits them to the running transaction, applies them. A change is
// planned under the shared lock of the tree, so that readers and other plans continue. If the plan
// is out of date when the exclusive lock is taken, the change is planned again under that lock,
// where no other thread can change the tree.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "meta/log/log.h"
#include "meta/store/node_loader.h"
#include "meta/store/shared_tree.h"
#include "meta/store/store.h"
#include "meta/store/store_failure.h"

namespace lazyfs::meta {

// Thread-safe.
class Applier {
 public:
  // Why a change cannot join the running transaction now.
  enum class Obstacle {
    kNone,
    kMustCommit,  // the running transaction has no room for it
    kMustClean,   // the log has no room for the transaction
    kMustGrow,    // the log is too small for another node
    kTooLarge,    // no transaction has room for it
  };
  // Removes an obstacle. `running`: the transaction that had no room.
  using MakeRoom = std::function<Result<>(Obstacle, Seq running)>;

  Applier(Log& log, SharedTree& tree, NodeLoader& loader, StoreFailure& failure,
          MakeRoom make_room, std::function<void()> commit_is_due)
      : log_(log),
        tree_(tree),
        loader_(loader),
        failure_(failure),
        make_room_(std::move(make_room)),
        commit_is_due_(std::move(commit_is_due)) {}

  // As Store::try_apply().
  Result<Seq> try_apply(const Batch& batch, Reserve reserve) EXCLUDES(tree_.mu);
  // As Store::make_room(). Gives up with kLogFull after `rounds` obstacles, when no band can be
  // added.
  Result<> make_room(std::uint64_t rounds) EXCLUDES(tree_.mu);
  // Changes whose plan was out of date, and was made again.
  std::uint64_t plans_repeated() const { return plans_repeated_; }

 private:
  // What a change needs of the log.
  struct Need {
    Estimate estimate;
    Reserve reserve = Reserve::kNone;
  };
  struct Attempt {
    Seq seq;  // of the transaction that the change belongs to, if it was applied
    Need need;
    Obstacle obstacle = Obstacle::kNone;
    std::optional<Miss> miss;
    bool is_applied = false;
  };
  // The obstacle to a change, and the running transaction.
  struct Blocked {
    Obstacle obstacle = Obstacle::kNone;
    Seq running;
  };
  Found<TreePlan> plan(std::vector<Change>& changes) const EXCLUDES(tree_.mu);
  Result<Attempt> try_once(const Batch& batch, std::vector<Change>& changes, Reserve reserve)
      EXCLUDES(tree_.mu);
  std::uint64_t nodes_allowed(Reserve reserve) const REQUIRES_SHARED(tree_.mu);
  Obstacle obstacle_to(const Need& need) const REQUIRES_SHARED(tree_.mu);
  Blocked look(const Need& need) const EXCLUDES(tree_.mu);

  Log& log_;
  SharedTree& tree_;
  NodeLoader& loader_;
  StoreFailure& failure_;
  const MakeRoom make_room_;
  const std::function<void()> commit_is_due_;  // called under the tree's lock
  std::atomic<std::uint64_t> plans_repeated_{0};
  // The need of the change that try_apply() of any store refused last on this thread.
  static thread_local Need t_refused;
};

}  // namespace lazyfs::meta
