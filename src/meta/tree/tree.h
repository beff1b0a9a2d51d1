// The B+tree over the nodes in memory: looking up, planning a change, making it. It does no I/O: if
// a node is not in memory the answer is a Miss, and the caller loads the node and asks again. A
// plan needs only the shared lock of the tree. The change itself needs the exclusive lock, for less
// time.
#pragma once

#include <boost/container/static_vector.hpp>
#include <expected>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "meta/tree/batch.h"
#include "meta/tree/node_cache.h"

namespace lazyfs::meta {

// Why the tree cannot answer: `node` must be loaded first; if that is 0, `error` is the cause.
struct Miss {
  NodeNo node;
  Errc error = Errc::kNodeBad;
};
template <class T>
using Found = std::expected<T, Miss>;

// The combined effect of a batch on one key.
struct Change {
  Key key;
  Batch::Change kind = Batch::Change::kPut;
  std::span<const std::byte> bytes;  // of the batch; unused if `own` is set
  std::optional<Value> own;          // computed here from several entries
  std::optional<Value> sum;          // kAdd: the item's new value, set by plan()

  std::span<const std::byte> operand() const { return own ? bytes_of(*own) : bytes; }
  std::span<const std::byte> result() const { return sum ? bytes_of(*sum) : operand(); }
};

// The batch's changes in the order of their keys, one for each key. The result refers to the batch.
// Errors: kValueTooLarge, kItemBad.
Result<std::vector<Change>> coalesce(const Batch& batch);
// to[i] += deltas[i] for 64-bit little-endian integers. Requires equal sizes, multiples of 8.
void add_counters(Value& to, std::span<const std::byte> deltas);

// The most that a change may need.
struct Estimate {
  std::uint64_t dirty = 0;  // nodes that join the running transaction, new ones included
  std::uint64_t made = 0;   // new nodes
  std::uint64_t freed = 0;  // nodes that may be freed
};

// A way from the root to a leaf.
struct TreePath {
  struct Step {
    Node* node = nullptr;
    unsigned index = 0;  // the child taken
  };
  boost::container::static_vector<Step, kMaxLevel + 2> steps;  // not empty
  unsigned leaf() const { return static_cast<unsigned>(steps.size() - 1); }  // its index in steps
  Node& at(unsigned depth) const { return *steps[depth].node; }
};

// Where changes belong in the tree and what they need, as found by Tree::plan().
struct TreePlan {
  // The effect of neighbouring changes on one leaf.
  struct LeafGroup {
    std::size_t growth_bytes = 0, puts = 0, erased_bytes = 0, shrunk_bytes = 0;
  };
  struct Group {
    TreePath path;
    std::uint64_t leaf_version = 0;
    Key first;
    LeafGroup leaf;
    std::size_t end = 0;  // index of the first change after them
  };
  Estimate estimate;
  std::vector<Group> groups;
  // The state of the tree and the cache at plan(): see Tree::is_current().
  std::uint64_t shape = 0, removals = 0;
  Seq running;
};

// Invariants of the tree:
//   T1  the root is always node 1, and in memory
//   T2  a child's level is one less than its parent's
//   T3  all keys below child i of an inner node lie in [key(i), key(i + 1)). The first key may be
//       above the lower bound of the node's range, when the items there were erased; inserting a
//       key below it lowers it
//   T4  no node but the root is empty, except while apply() runs: it frees empty leaves once it has
//       made all changes, because their ranges fall to neighbours, which need not be in memory
// Thread-safety: the store's tree lock; shared for const functions, exclusive for apply().
class Tree {
 public:
  explicit Tree(NodeCache& cache) : cache_(cache) {}
  static constexpr NodeNo kRoot{1};

  Found<std::optional<Value>> get(Key key) const;
  Found<std::optional<Item>> last_in(Key first, Key last) const;
  // Appends to `items` those of one leaf that lie in [first, last], until there are `max_items`.
  // Returns where to continue, or nullopt at the end.
  Found<std::optional<Key>> scan_leaf(Key first, Key last, std::size_t max_items,
                                      std::vector<Item>& items) const;
  // The first node on the way to the key's leaf that is not in memory, if one is missing; and the
  // end of its range, or else of the leaf's range.
  struct Part {
    std::optional<NodeNo> missing;
    std::optional<Key> end;  // nullopt: no key lies past it
  };
  Part part_of(Key key) const;

  // Finds all nodes that apply(changes) needs, checks the changes, and computes the results of
  // additions.
  Found<TreePlan> plan(std::span<Change> changes) const;
  // Whether nothing that the plan depends on has changed since plan(). Any eviction and any new
  // transaction make it false, even if they do not concern the plan.
  bool is_current(const TreePlan& plan) const;
  // REQUIRES: `plan` is current, and of the same changes. The plan cannot be used again. False only
  // when the tree contradicts itself (a hostile image that names one node twice): then some of the
  // changes are made, and the tree in memory must not be written.
  bool apply(std::span<const Change> changes, TreePlan& plan);

  std::uint8_t height() const { return static_cast<std::uint8_t>(root().page().level() + 1); }

 private:
  using Path = TreePath;

  Node& root() const;
  // The path to the leaf whose range holds `key`; with `below`, to the leaf that holds the last key
  // before it.
  Found<Path> descend(Key key, bool below = false) const;
  std::optional<Key> upper_bound_of(const Path& path) const;
  Key lower_bound_of(const Path& path) const;
  Found<TreePlan::LeafGroup> plan_leaf(const Node& leaf, std::span<Change> changes) const;
  Estimate estimate(const TreePlan& plan, std::uint64_t made_at_most) const;

  void make(Path& path, const Change& change);
  void tidy_each(std::span<const Change> changes, bool may_merge);
  void tidy(Path& path, bool may_merge);
  void put(Path& path, Key key, std::span<const std::byte> value);
  void erase(Path& path, Key key);
  void insert(Path& path, unsigned depth, unsigned i, Key key, std::span<const std::byte> value);
  void split(Path& path, unsigned depth, unsigned i, Key key, std::span<const std::byte> value);
  void grow(Path& path);
  void remove_child(Path& path, unsigned depth);
  void merge_if_small(Path& path, unsigned depth);
  bool merge(Path& path, unsigned parent_depth, unsigned left_index);
  void shrink();

  NodeCache& cache_;
  std::uint64_t shape_ = 0;  // +1 whenever a path that was found before may lead elsewhere
};

}  // namespace lazyfs::meta
