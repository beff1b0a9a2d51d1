#include "meta/tree/tree.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lazyfs::meta {
namespace {

// The child of an inner node that holds `key`; with `below`, the last key before it.
unsigned child_for(const ConstNodePage& page, Key key, bool below) {
  const unsigned i = page.lower_bound(key);
  return i > 0 && (below || !page.has(i, key)) ? i - 1 : i;
}

// A split leaves at least this much free on each side: the worst cut is at a third of a node, and a
// value may be a quarter. So this much growth costs at most one more split.
constexpr std::size_t kGrowthPerSplit = kNodeRoomBytes / 3;

// Most batches change no more leaves than this, so their plan allocates memory once.
constexpr std::size_t kGroupsExpected = 8;

std::uint64_t splits_at_most(std::size_t growth_bytes, std::size_t puts) {
  return std::min<std::uint64_t>(puts, 2 + growth_bytes / kGrowthPerSplit);
}

}  // namespace

Node& Tree::root() const {
  Node* node = cache_.find(kRoot);
  CHECK(node != nullptr);  // T1
  return *node;
}

Found<Tree::Path> Tree::descend(Key key, bool below) const {
  Path path;
  Node* node = &root();
  NodeCache::touch(*node);
  for (;;) {
    const ConstNodePage page = node->page();
    if (page.is_leaf()) {
      path.steps.push_back({node, 0});
      return path;
    }
    const unsigned i = child_for(page, key, below);
    path.steps.push_back({node, i});
    const NodeNo child = page.child(i);
    node = cache_.find(child);
    if (node == nullptr) return std::unexpected(Miss{child});
    if (node->page().level() + 1 != page.level()) return std::unexpected(Miss{});  // T2
    NodeCache::touch(*node);
  }
}

std::optional<Key> Tree::upper_bound_of(const Path& path) const {
  for (unsigned depth = path.leaf(); depth-- > 0;) {
    const ConstNodePage page = path.at(depth).page();
    const unsigned next = path.steps[depth].index + 1;
    if (next < page.count()) return page.key(next);
  }
  return std::nullopt;
}

Key Tree::lower_bound_of(const Path& path) const {
  for (unsigned depth = path.leaf(); depth-- > 0;) {
    const unsigned i = path.steps[depth].index;
    if (i > 0) return path.at(depth).page().key(i);  // T3: the first key is not the bound
  }
  return Key{};
}

namespace {

// By pointers: Boost 1.74 copies byte by byte between other iterators.
Value value_of(std::span<const std::byte> bytes) {
  return Value(bytes.data(), bytes.data() + bytes.size());
}

}  // namespace

Found<std::optional<Value>> Tree::get(Key key) const {
  const auto path = descend(key);
  if (!path) return std::unexpected(path.error());
  const ConstNodePage page = path->at(path->leaf()).page();
  const unsigned i = page.lower_bound(key);
  if (!page.has(i, key)) return std::nullopt;
  return value_of(page.value(i));
}

Found<std::optional<Item>> Tree::last_in(Key first, Key last) const {
  if (last < first) return std::nullopt;
  auto path = descend(last);
  if (!path) return std::unexpected(path.error());
  const ConstNodePage start = path->at(path->leaf()).page();
  unsigned end = start.lower_bound(last);
  if (start.has(end, last)) ++end;
  while (end == 0) {  // nothing in this leaf: continue in the one before it
    const Key bound = lower_bound_of(*path);
    if (bound <= first) return std::nullopt;
    path = descend(bound, true);
    if (!path) return std::unexpected(path.error());
    if (lower_bound_of(*path) >= bound) return std::unexpected(Miss{});  // T3 is broken
    end = path->at(path->leaf()).page().lower_bound(bound);
  }
  const ConstNodePage page = path->at(path->leaf()).page();
  const Key key = page.key(end - 1);
  if (key < first) return std::nullopt;
  return Item{key, value_of(page.value(end - 1))};
}

Found<std::optional<Key>> Tree::scan_leaf(Key first, Key last, std::size_t max_items,
                                          std::vector<Item>& items) const {
  const auto path = descend(first);
  if (!path) return std::unexpected(path.error());
  const ConstNodePage page = path->at(path->leaf()).page();
  for (unsigned i = page.lower_bound(first); i < page.count(); ++i) {
    const Key key = page.key(i);
    if (key > last || items.size() >= max_items) return std::nullopt;
    items.push_back({key, value_of(page.value(i))});
  }
  const auto next = upper_bound_of(*path);
  if (!next || *next > last || items.size() >= max_items) return std::nullopt;
  if (*next <= first) return std::unexpected(Miss{});  // T3 is broken
  return next;
}

Tree::Part Tree::part_of(Key key) const {
  Part part;
  for (Node* node = &root(); !node->page().is_leaf();) {
    const ConstNodePage page = node->page();
    const unsigned i = child_for(page, key, false);
    if (i + 1 < page.count() && page.key(i + 1) > key) part.end = page.key(i + 1);
    const NodeNo child = page.child(i);
    node = cache_.find(child);
    if (node == nullptr) part.missing = child;
    if (node == nullptr || node->page().level() + 1 != page.level()) break;  // T2
  }
  return part;
}

bool Tree::apply(std::span<const Change> changes, TreePlan& plan) {
  std::size_t i = 0;
  for (TreePlan::Group& group : plan.groups) {
    for (; i < group.end; ++i) {
      if (shape_ == plan.shape) {
        make(group.path, changes[i]);
      } else {
        auto path = descend(changes[i].key);
        if (!path) return false;
        make(*path, changes[i]);
      }
    }
  }
  const bool may_merge = shape_ == plan.shape;  // the estimate has no merges of what was split
  i = 0;
  for (TreePlan::Group& group : plan.groups) {
    const std::size_t first = std::exchange(i, group.end);
    if (group.leaf.erased_bytes == 0) continue;
    if (shape_ == plan.shape) {
      tidy(group.path, may_merge);
    } else {
      tidy_each(changes.subspan(first, group.end - first), may_merge);
    }
  }
  return true;
}

// The leaves that the group's changes lie in: several after a split.
void Tree::tidy_each(std::span<const Change> changes, bool may_merge) {
  for (const Change& change : changes) {
    if (change.kind != Batch::Change::kErase) continue;
    auto path = descend(change.key);
    if (path) tidy(*path, may_merge);  // else the leaf is gone, and one not in memory has its range
    if (may_merge) return;
  }
}

// Frees the leaf if it is empty, merges it if it is small.
void Tree::tidy(Path& path, bool may_merge) {
  const unsigned depth = path.leaf();
  if (depth == 0) return;
  if (path.at(depth).page().count() == 0) {
    remove_child(path, depth);  // T4
  } else if (may_merge) {
    merge_if_small(path, depth);
  }
  shrink();
}

// `path` leads to the change's leaf.
void Tree::make(Path& path, const Change& change) {
  if (change.kind == Batch::Change::kErase) {
    erase(path, change.key);
  } else {
    put(path, change.key, change.result());
  }
}

void Tree::put(Path& path, Key key, std::span<const std::byte> value) {
  for (unsigned depth = 0; depth < path.leaf(); ++depth) {
    Node& node = path.at(depth);
    if (key < node.page().key(0)) cache_.make_dirty(node).set_first_key(key);  // T3
  }
  Node& leaf = path.at(path.leaf());
  const ConstNodePage page = leaf.page();
  const unsigned i = page.lower_bound(key);
  if (!page.has(i, key)) return insert(path, path.leaf(), i, key, value);
  const auto old = page.value(i);
  if (std::ranges::equal(old, value)) return;
  NodePage to = cache_.make_dirty(leaf);
  if (value.size() <= old.size() || value.size() - old.size() <= to.free_bytes()) {
    to.replace(i, value);
  } else {
    to.erase(i);
    insert(path, path.leaf(), i, key, value);
  }
}

void Tree::insert(Path& path, unsigned depth, unsigned i, Key key,
                  std::span<const std::byte> value) {
  Node& node = path.at(depth);
  NodePage page = cache_.make_dirty(node);
  if (item_room(value.size()) > page.free_bytes()) return split(path, depth, i, key, value);
  page.insert(i, key, value);
  node.next_insert = static_cast<std::uint16_t>(i + 1);
}

namespace {

// Where to cut a node that takes one more item of `room` bytes before item i: items [0, at) stay.
struct Cut {
  unsigned at = 0;
  bool new_goes_left = false;
};

std::size_t room_before(ConstNodePage page, unsigned end) {
  std::size_t bytes = 0;
  for (unsigned i = 0; i < end; ++i) bytes += page.room_of(i);
  return bytes;
}

Cut balanced_cut(ConstNodePage page, unsigned i, std::size_t room) {
  const std::size_t half = (page.used_bytes() + room) / 2;
  std::size_t left = 0;
  for (unsigned at = 0; at < page.count(); ++at) {
    if (at == i) {
      if (left + room > half && at > 0)
        return {at, left + room <= kNodeRoomBytes && left < half / 2};
      left += room;
    }
    if (left >= half && at > 0) return {at, i < at};
    left += page.room_of(at);
  }
  return {page.count() - 1, i < page.count() - 1};
}

Cut choose_cut(const Node& node, unsigned i, std::size_t room) {
  const ConstNodePage page = node.page();
  if (i == page.count()) return {i, false};  // in order at the end: leave this node full
  if (i > 0 && i == node.next_insert) {      // in order in the middle: cut where the run continues
    const std::size_t left = room_before(page, i);
    if (left + room <= kNodeRoomBytes) return {i, true};
    if (page.used_bytes() - left + room <= kNodeRoomBytes) return {i, false};
  }
  return balanced_cut(page, i, room);
}

}  // namespace

void Tree::split(Path& path, unsigned depth, unsigned i, Key key,
                 std::span<const std::byte> value) {
  ++shape_;
  if (depth == 0) {
    grow(path);
    depth = 1;
  }
  Node& left = path.at(depth);
  const Cut cut = choose_cut(left, i, item_room(value.size()));
  Node& right = cache_.create(left.page().level());
  NodePage left_page(left.image), right_page(right.image);
  left_page.move_tail(cut.at, right_page);
  if (cut.new_goes_left) {
    left_page.insert(i, key, value);
    left.next_insert = static_cast<std::uint16_t>(i + 1);
  } else {
    right_page.insert(i - cut.at, key, value);
    right.next_insert = static_cast<std::uint16_t>(i - cut.at + 1);
    left.next_insert = 0;
  }
  std::array<std::byte, 8> number;
  store_le(std::span<std::byte, 8>(number), right.number.value);
  insert(path, depth - 1, path.steps[depth - 1].index + 1, right_page.key(0), number);
}

// Puts a level between the root and what it holds.
void Tree::grow(Path& path) {
  Node& old_root = path.at(0);
  Node& child = cache_.create(old_root.page().level());
  NodePage(child.image).copy_content(old_root.page(), old_root.image);
  child.next_insert = old_root.next_insert;
  NodePage page = cache_.make_dirty(old_root);
  const std::uint8_t level = child.page().level();
  CHECK(level < kMaxLevel);
  page.format(kRoot, static_cast<std::uint8_t>(level + 1), cache_.fs_tag());
  std::array<std::byte, 8> number;
  store_le(std::span<std::byte, 8>(number), child.number.value);
  page.insert(0, Key{}, number);
  path.steps.insert(path.steps.begin(), {&old_root, 0});
  path.steps[1].node = &child;
}

void Tree::erase(Path& path, Key key) {
  Node& leaf = path.at(path.leaf());
  const unsigned i = leaf.page().lower_bound(key);
  if (!leaf.page().has(i, key)) return;
  NodePage page = cache_.make_dirty(leaf);
  page.erase(i);
  leaf.next_insert = 0;
}

// Frees the node at `depth`, which is empty or has given away its items, and its parent's item for
// it.
void Tree::remove_child(Path& path, unsigned depth) {
  ++shape_;
  cache_.free_node(path.at(depth));
  Node& parent = path.at(depth - 1);
  NodePage page = cache_.make_dirty(parent);
  const unsigned i = path.steps[depth - 1].index;
  if (i == 0 && page.count() > 1) {
    page.set_child(0, page.child(1));  // the lower bound of the range stays (T3)
    page.erase(1);
  } else {
    page.erase(i);
  }
  if (page.count() > 0) {
    if (depth > 1) merge_if_small(path, depth - 1);
  } else if (depth == 1) {
    page.format(kRoot, 0, cache_.fs_tag());
  } else {
    remove_child(path, depth - 1);
  }
}

// Merges the node with a sibling in memory if both are rather empty.
void Tree::merge_if_small(Path& path, unsigned depth) {
  if (path.at(depth).page().used_bytes() > kNodeRoomBytes / 4) return;
  const unsigned i = path.steps[depth - 1].index;
  if (i + 1 < path.at(depth - 1).page().count() && merge(path, depth - 1, i)) return;
  if (i > 0) merge(path, depth - 1, i - 1);
}

// Merges the children left_index and left_index + 1 if both are in memory and fit with room to
// spare.
bool Tree::merge(Path& path, unsigned parent_depth, unsigned left_index) {
  const ConstNodePage parent = path.at(parent_depth).page();
  Node* left = cache_.find(parent.child(left_index));
  Node* right = cache_.find(parent.child(left_index + 1));
  if (left == nullptr || right == nullptr || left == right ||
      left->page().level() != right->page().level() ||
      left->page().used_bytes() + right->page().used_bytes() > kNodeRoomBytes * 3 / 4) {
    return false;
  }
  NodePage to = cache_.make_dirty(*left), from = cache_.make_dirty(*right);
  from.move_tail(0, to);
  left->next_insert = 0;
  path.steps[parent_depth] = {&path.at(parent_depth), left_index + 1};
  path.steps[parent_depth + 1] = {right, 0};
  remove_child(path, parent_depth + 1);
  return true;
}

// Removes levels while the root has only one child, and that child is in memory.
void Tree::shrink() {
  for (;;) {
    Node& top = root();
    if (top.page().is_leaf() || top.page().count() != 1) return;
    Node* child = cache_.find(top.page().child(0));
    if (child == nullptr || child->page().level() + 1 != top.page().level()) return;
    ++shape_;
    cache_.make_dirty(top).copy_content(child->page(), child->image);
    top.next_insert = 0;
    cache_.free_node(*child);
  }
}

// ---- planning: what a change needs before it is made: every node in memory, additions worked out,
// and how many nodes it dirties, makes and frees at most ----

// Checks the changes, all within this leaf; works out their additions.
Found<TreePlan::LeafGroup> Tree::plan_leaf(const Node& leaf, std::span<Change> changes) const {
  const ConstNodePage page = leaf.page();
  TreePlan::LeafGroup group;
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
    group.shrunk_bytes += old_room > room ? old_room - room : 0;
  }
  return group;
}

namespace {

// Adds up what a plan's groups need.
class EstimateMaker {
 public:
  explicit EstimateMaker(std::uint64_t made_at_most) : made_at_most_(made_at_most) {}

  void add(const TreePlan::Group& group) {
    const TreePath& path = group.path;
    Node& leaf = path.at(path.leaf());
    changed_.push_back(&leaf);
    for (unsigned depth = 0; depth < path.leaf(); ++depth) {
      Node& inner = path.at(depth);
      if (group.first < inner.page().key(0)) changed_.push_back(&inner);  // T3
    }
    const ConstNodePage page = leaf.page();
    const bool may_split = group.leaf.growth_bytes > page.free_bytes();
    if (may_split) add_splits(group);
    const std::size_t used = page.used_bytes();
    const std::size_t left =
        used - std::min(used, group.leaf.erased_bytes + group.leaf.shrunk_bytes);
    if (group.leaf.erased_bytes > 0 && (may_split || left <= kNodeRoomBytes / 4)) add_merges(path);
  }

  // `running`: the transaction that the change is to join.
  Estimate result(Seq running) {
    std::ranges::sort(changed_);
    const auto repeated = std::ranges::unique(changed_);
    changed_.erase(repeated.begin(), repeated.end());
    Estimate e = sum_;
    e.dirty += e.made;
    for (const Node* node : changed_) e.dirty += node->dirty_seq != running;
    return e;
  }

 private:
  void add_splits(const TreePlan::Group& group) {
    std::uint64_t made = splits_at_most(group.leaf.growth_bytes, group.leaf.puts);
    sum_.made += made;
    for (unsigned depth = group.path.leaf();; made = 1 + made_at_most_ / 60) {
      if (depth == 0) {
        sum_.made += 1;  // the root keeps its number: what it holds moves to a new node
        return;
      }
      Node& parent = group.path.at(--depth);
      changed_.push_back(&parent);
      if (made_at_most_ * kInnerItemRoom <= parent.page().free_bytes()) return;
      sum_.made += made;
    }
  }

  void add_merges(const TreePath& path) {
    sum_.freed += 1 + path.leaf();
    sum_.dirty += path.leaf();  // a sibling on each level
    for (unsigned depth = 0; depth < path.leaf(); ++depth) changed_.push_back(&path.at(depth));
  }

  const std::uint64_t made_at_most_;  // new leaves
  Estimate sum_;                      // without changed_
  std::vector<Node*> changed_;        // nodes that exist, perhaps named several times
};

}  // namespace

Estimate Tree::estimate(const TreePlan& plan, std::uint64_t made_at_most) const {
  EstimateMaker maker(made_at_most);
  for (const TreePlan::Group& group : plan.groups) maker.add(group);
  return maker.result(plan.running);
}

Found<TreePlan> Tree::plan(std::span<Change> changes) const {
  if (root().page().level() >= kMaxLevel) return std::unexpected(Miss{});  // no honest tree
  TreePlan plan;
  plan.shape = shape_;
  plan.removals = cache_.removals();
  plan.running = cache_.running().seq;
  plan.groups.reserve(std::min(changes.size(), kGroupsExpected));
  std::uint64_t made_at_most = 0;
  for (std::size_t begin = 0; begin < changes.size();) {
    const auto path = descend(changes[begin].key);
    if (!path) return std::unexpected(path.error());
    const Node& node = path->at(path->leaf());
    const auto bound = upper_bound_of(*path);
    std::size_t end = begin + 1;
    while (end < changes.size() && (!bound || changes[end].key < *bound)) ++end;
    const auto leaf = plan_leaf(node, changes.subspan(begin, end - begin));
    if (!leaf) return std::unexpected(leaf.error());
    if (leaf->growth_bytes > node.page().free_bytes()) {
      made_at_most += splits_at_most(leaf->growth_bytes, leaf->puts);
    }
    plan.groups.push_back({*path, node.version, changes[begin].key, *leaf, end});
    begin = end;
  }
  plan.estimate = estimate(plan, made_at_most);
  return plan;
}

// If no node was removed from memory, the nodes of the paths still exist. If no node was split,
// merged or freed, the paths still lead to the leaves of the changes, and their inner nodes have
// the same room. (A new first key of an inner node is as long as the old one.) The estimate counts
// nodes that the running transaction had not changed.
bool Tree::is_current(const TreePlan& plan) const {
  if (plan.shape != shape_ || plan.removals != cache_.removals() ||
      plan.running != cache_.running().seq) {
    return false;
  }
  return std::ranges::all_of(plan.groups, [](const TreePlan::Group& group) {
    return group.path.at(group.path.leaf()).version == group.leaf_version;
  });
}

}  // namespace lazyfs::meta
