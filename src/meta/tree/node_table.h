// Finds nodes in memory by their numbers.
#pragma once

#include <algorithm>
#include <bit>
#include <boost/intrusive/unordered_set.hpp>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/types.h"
#include "meta/tree/node.h"

namespace lazyfs::meta {

// A hash table whose chains run through the nodes. Each level of a search looks up one number,
// which reads a bucket and a node; usually neither is in the CPU's cache. Numbers count up, so a
// number is its own hash. The table has a bucket for each expected node (at most 4 Mi, 32 MiB).
// Only expect() changes the number of buckets, so no change of the tree waits for a rehash. More
// nodes make the chains longer. Does not own the nodes. Not thread-safe, but several threads may
// call find() at the same time.
class NodeTable {
 public:
  explicit NodeTable(std::size_t nodes)
      : buckets_(length_for(nodes)), set_({buckets_.data(), buckets_.size()}) {}
  NodeTable(const NodeTable&) = delete;
  NodeTable& operator=(const NodeTable&) = delete;

  // Null if the table has no node of this number.
  Node* find(NodeNo number) const {
    const auto found = set_.find(number);
    return found == set_.end() ? nullptr : &const_cast<Node&>(*found);
  }
  // Returns false, and does nothing, if the table has a node of this number.
  [[nodiscard]] bool insert(Node& node) { return set_.insert(node).second; }
  // REQUIRES: the node is in the table (checked).
  void erase(Node& node) {
    CHECK(static_cast<const NodeTableHook&>(node).is_linked());
    set_.erase(set_.iterator_to(node));
  }
  std::size_t size() const { return set_.size(); }
  // Gives the table the buckets for `nodes` nodes. Takes time in proportion to its present nodes.
  void expect(std::size_t nodes) {
    std::vector<Set::bucket_type> buckets(length_for(nodes));
    set_.rehash({buckets.data(), buckets.size()});
    buckets_ = std::move(buckets);
  }
  // Removes all nodes, and calls visit(Node*) for each. visit() may delete the node.
  void clear(auto visit) { set_.clear_and_dispose(visit); }

 private:
  struct NumberOf {
    using type = NodeNo;
    type operator()(const Node& node) const { return node.number; }
  };
  struct Hash {
    std::size_t operator()(NodeNo number) const { return number.value; }
  };
  using Set = boost::intrusive::unordered_set<
      Node, boost::intrusive::key_of_value<NumberOf>, boost::intrusive::hash<Hash>,
      boost::intrusive::power_2_buckets<true>>;

  // A cache may be allowed far more memory than it will ever use.
  static constexpr std::size_t kLengthMin = 64, kLengthMax = std::size_t{4} << 20;

  static std::size_t length_for(std::size_t nodes) {
    return std::bit_ceil(std::clamp(nodes, kLengthMin, kLengthMax));
  }

  std::vector<Set::bucket_type> buckets_;
  Set set_;
};

}  // namespace lazyfs::meta
