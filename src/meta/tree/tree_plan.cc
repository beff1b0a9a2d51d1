// What a change needs before it can be made: every node in memory, additions worked out, and how
// many nodes it may dirty, make and free at most (meta/tree/tree.h).
#include <algorithm>

#include "meta/tree/tree.h"

namespace lazyfs::meta {
namespace {

// A split leaves at least this much free on each side (a third of a node is the worst cut, and a
// value may be a quarter); so this much growth costs at most one more split.
constexpr std::size_t kGrowthPerSplit = kNodeRoomBytes / 3;

std::uint64_t splits_at_most(std::size_t growth_bytes, std::size_t puts) {
  return std::min<std::uint64_t>(puts, 2 + growth_bytes / kGrowthPerSplit);
}

}  // namespace

// Checks the changes, all within this leaf; works out their additions.
Found<Tree::LeafGroup> Tree::plan_leaf(const Node& leaf, std::span<Change> changes) const {
  const ConstNodePage page = leaf.page();
  LeafGroup group;
  for (Change& change : changes) {
    const unsigned i = page.lower_bound(change.key);
    const bool there = page.has(i, change.key);
    if (change.kind == Batch::Change::kErase) {
      if (there) group.erased_bytes += page.room_of(i);
      continue;
    }
    if (change.kind == Batch::Change::kAdd && there) {
      const auto old = page.value(i);
      const auto deltas = change.operand();
      if (old.size() != deltas.size()) return std::unexpected(Miss{{}, Errc::kItemBad});
      change.sum.emplace(old.begin(), old.end());
      add_counters(*change.sum, deltas);
      continue;
    }
    change.sum.reset();
    ++group.puts;
    const std::size_t room = item_room(change.operand().size());
    const std::size_t old_room = there ? page.room_of(i) : 0;
    group.growth_bytes += room > old_room ? room - old_room : 0;
  }
  return group;
}

void Tree::count(Node& node, Estimate& e) {
  if (node.plan_mark == plan_mark_) return;
  node.plan_mark = plan_mark_;
  if (node.dirty_seq != cache_.running().seq) ++e.dirty;
}

void Tree::count_group(const Path& path, Key first, const LeafGroup& group,
                       std::uint64_t made_at_most, Estimate& e) {
  Node& leaf = path.at(path.leaf);
  count(leaf, e);
  for (unsigned depth = 0; depth < path.leaf; ++depth) {
    if (first < path.at(depth).page().key(0)) count(path.at(depth), e);  // T3
  }
  const ConstNodePage page = leaf.page();
  if (group.growth_bytes > page.free_bytes()) {
    std::uint64_t made = splits_at_most(group.growth_bytes, group.puts);
    e.made += made;
    for (unsigned depth = path.leaf;; made = 1 + made_at_most / 60) {
      if (depth == 0) {
        e.made += 1;  // the root keeps its number: what it holds moves to a new node
        break;
      }
      Node& parent = path.at(--depth);
      count(parent, e);
      if (made_at_most * kInnerItemRoom <= parent.page().free_bytes()) break;
      e.made += made;
    }
  }
  const bool may_shrink =
      group.erased_bytes > 0 &&
      page.used_bytes() - std::min(page.used_bytes(), group.erased_bytes) <= kNodeRoomBytes / 4;
  if (!may_shrink) return;
  e.freed += 1 + path.leaf;
  e.dirty += path.leaf;  // a sibling on each level
  for (unsigned depth = 0; depth < path.leaf; ++depth) count(path.at(depth), e);
}

Found<Estimate> Tree::plan(std::span<Change> changes) {
  if (root().page().level() >= kMaxLevel) return std::unexpected(Miss{});  // no honest tree
  ++plan_mark_;
  groups_.clear();
  planned_shape_ = shape_;
  std::uint64_t made_at_most = 0;
  for (std::size_t begin = 0; begin < changes.size();) {
    const auto path = descend(changes[begin].key);
    if (!path) return std::unexpected(path.error());
    const auto bound = upper_bound_of(*path);
    std::size_t end = begin + 1;
    while (end < changes.size() && (!bound || changes[end].key < *bound)) ++end;
    const auto leaf = plan_leaf(path->at(path->leaf), changes.subspan(begin, end - begin));
    if (!leaf) return std::unexpected(leaf.error());
    if (leaf->growth_bytes > path->at(path->leaf).page().free_bytes()) {
      made_at_most += splits_at_most(leaf->growth_bytes, leaf->puts);
    }
    groups_.push_back({*path, changes[begin].key, *leaf, end});
    begin = end;
  }
  Estimate e;
  for (const Group& group : groups_)
    count_group(group.path, group.first, group.leaf, made_at_most, e);
  e.dirty += e.made;
  return e;
}

}  // namespace lazyfs::meta
