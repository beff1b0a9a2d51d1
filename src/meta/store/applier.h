// Makes changes: plans them, admits them to the running transaction, applies them.
#pragma once

#include <functional>

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
  // How an applier gets past an obstacle. `running`: the transaction that had no room.
  using MakeRoom = std::function<Result<>(Obstacle, Seq running)>;

  Applier(Log& log, SharedTree& tree, NodeLoader& loader, StoreFailure& failure,
          MakeRoom make_room, std::function<void()> commit_is_due)
      : log_(log),
        tree_(tree),
        loader_(loader),
        failure_(failure),
        make_room_(std::move(make_room)),
        commit_is_due_(std::move(commit_is_due)) {}

  // As Store::apply(). Gives up with kLogFull after `rounds` obstacles,
  // once no band can be added.
  Result<Seq> apply(const Batch& batch, Reserve reserve, std::uint64_t rounds)
      EXCLUDES(tree_.mu);

 private:
  struct Attempt {
    Seq seq;  // applied: the transaction that the change belongs to; else the running one
    Obstacle obstacle = Obstacle::kNone;
    std::optional<Miss> miss;
    bool is_applied = false;
  };
  Result<Attempt> try_once(const Batch& batch, std::vector<Change>& changes, Reserve reserve)
      EXCLUDES(tree_.mu);
  std::uint64_t nodes_allowed(Reserve reserve) const REQUIRES_SHARED(tree_.mu);
  Obstacle obstacle_to(const Estimate& estimate, Reserve reserve) const
      REQUIRES_SHARED(tree_.mu);

  Log& log_;
  SharedTree& tree_;
  NodeLoader& loader_;
  StoreFailure& failure_;
  const MakeRoom make_room_;
  const std::function<void()> commit_is_due_;  // called under the tree's lock
};

}  // namespace lazyfs::meta
