// The nodes in memory: a table of them, which of them the running transaction has changed, which
// ones are being written, and what to evict when there are too many.
#pragma once

#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <new>
#include <unordered_set>
#include <vector>

#include "base/large_pages.h"
#include "base/types.h"
#include "meta/tree/node.h"
#include "meta/tree/node_table.h"

namespace lazyfs::meta {

// 4 KiB images, aligned for direct I/O. Given-back images are used again. The memory is in large
// pages, because a search jumps among many images, and so needs fewer TLB entries. Not thread-safe.
class ImagePool {
 public:
  std::byte* take();
  void give_back(std::byte* image) { spare_.push_back(image); }  // has room
  // The next `images` calls of take() need no memory.
  void provide(std::size_t images) {
    while (spare_.size() < images) add_chunk();
  }

 private:
  void add_chunk();

  std::vector<LargePages> chunks_;
  std::vector<std::byte*> spare_;
};

using FreedNodes = std::unordered_set<NodeNo>;

// The changes of a transaction: dirty nodes, and the numbers of freed nodes.
struct Changes {
  Seq seq;
  std::vector<Node*> dirty;
  FreedNodes freed;
  std::uint64_t cleaned = 0;  // how many of `dirty` the cleaner added unchanged
  NodeNo next_node;           // as it was when sealed
  bool empty() const { return dirty.empty() && freed.empty(); }
};

// Invariants:
//   C1  a node with dirty_seq == running().seq is in running().dirty, at dirty_index, and in no
//       other list of dirty nodes
//   C2  a node of sealed() keeps the image that is written until mark_durable(): a change copies
//       the image first
//   C3  the clean list holds exactly the nodes of the table with dirty_seq 0
//   C4  only clean, unpinned nodes are evicted
// Guarded by the store's tree lock: exclusive for everything that is not const, except touch() and
// pins.
class NodeCache {
 public:
  NodeCache(std::size_t limit_nodes, std::uint32_t fs_tag, Seq running, NodeNo next_node,
            std::uint64_t nodes);
  ~NodeCache();
  NodeCache(const NodeCache&) = delete;
  NodeCache& operator=(const NodeCache&) = delete;

  Node* find(NodeNo number) const { return table_.find(number); }
  static void touch(Node& node) {
    if (!node.referenced.load(std::memory_order_relaxed)) {
      node.referenced.store(true, std::memory_order_relaxed);
    }
  }

  std::byte* take_image() { return pool_.take(); }
  // Null if memory lacks.
  std::byte* take_or_null() try {
    return pool_.take();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  void give_back_image(std::byte* image) { pool_.give_back(image); }
  // Gets the memory with which so many nodes can be made dirty, made and freed: these calls then
  // do not throw. So no change stops half-way for lack of memory. std::bad_alloc: nothing changed.
  void provide(std::uint64_t dirty, std::uint64_t made, std::uint64_t freed);
  // Adds a node that was read. Takes over the image, and takes one pin for the caller. May evict
  // others.
  Node& insert_clean(NodeNo number, std::byte* image);
  // A new node, in the running transaction.
  Node& create(std::uint8_t level);
  // REQUIRED before a change: makes the node part of the running transaction.
  NodePage make_dirty(Node& node);
  // Deletes the node. REQUIRES: no node refers to it.
  void free_node(Node& node);
  // The same for a node that is in the map, but not in memory.
  void free_unread(NodeNo number);
  // Whether the number was freed by a transaction that is not durable.
  bool is_freed(NodeNo number) const {
    return running_.freed.contains(number) || sealed_.freed.contains(number);
  }

  const Changes& running() const { return running_; }
  Changes& running() { return running_; }
  const Changes& sealed() const { return sealed_; }
  // Seals the running transaction, which will be written, and begins a new one. REQUIRES: none is
  // sealed.
  void seal();
  // The image that the sealed transaction writes. Its bytes from kNodeStampBytes on never change.
  static std::byte* sealed_image_of(const Node& node) {
    return node.sealed_image != nullptr ? node.sealed_image : node.image;
  }
  // Notes that the nodes [from, to) of sealed().dirty are durable.
  void mark_durable(std::size_t from, std::size_t to);
  // Ends the sealed transaction. REQUIRES: all its nodes are durable. Returns its changes, which
  // may be many: the caller destroys them without the lock.
  Changes end_sealed();

  std::size_t limit() const { return limit_nodes_; }
  // After a lower limit the number of nodes falls gradually, as nodes come and go.
  void set_limit(std::size_t nodes);
  std::size_t cached() const { return table_.size(); }
  std::uint64_t removals() const { return removals_; }  // +1 whenever a node leaves the table
  std::uint64_t nodes() const { return nodes_; }  // that exist in the tree
  // New nodes get numbers from `least` on.
  void raise_next_node(NodeNo least) { next_node_ = std::max(next_node_, least); }
  NodeNo next_node() const { return next_node_; }
  std::uint32_t fs_tag() const { return fs_tag_; }

 private:
  bool is_being_written(const Node& node) const {
    return node.sealed_image != nullptr ||
           (sealed_.seq.value != 0 && node.dirty_seq == sealed_.seq);
  }
  void provide_to_free(std::uint64_t freed);
  void note_freed(NodeNo number);
  void add_to_table(Node& node);
  void take_from_table(Node& node);
  void add_to_running(Node& node);
  void evict();
  void retire(Node& node);
  void destroy(Node& node);

  std::size_t limit_nodes_;
  const std::uint32_t fs_tag_;
  ImagePool pool_;
  NodeTable table_;
  boost::intrusive::list<Node> clean_;  // in the order of the clock
  std::vector<Node*> retired_;        // dead, perhaps pinned
  std::size_t dying_ = 0;             // dead nodes that are being written
  // Memory for changes, see provide().
  std::vector<std::unique_ptr<Node>> spare_nodes_;
  std::vector<FreedNodes::node_type> spare_freed_;
  Changes running_, sealed_;
  NodeNo next_node_;
  std::uint64_t nodes_ = 0;
  std::size_t inner_ = 0;  // of table_
  std::uint64_t removals_ = 0;
};

}  // namespace lazyfs::meta
