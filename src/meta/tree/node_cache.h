// The nodes in memory: a table of them, which of them the running transaction has changed, which
// ones are being written, and what to evict when there are too many.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/buffer.h"
#include "base/types.h"
#include "meta/tree/node_page.h"

namespace lazyfs::meta {

// 4 KiB images, aligned for direct I/O, from large chunks and back into a list. Not thread-safe.
class ImagePool {
 public:
  std::byte* take();
  void give_back(std::byte* image) { spare_.push_back(image); }

 private:
  static constexpr std::size_t kChunkImages = 64;
  std::vector<AlignedBuffer> chunks_;
  std::vector<std::byte*> spare_;
};

// A node in memory. NodeCache owns it, and its images, which come from the pool.
struct Node : boost::intrusive::list_base_hook<  // NodeCache's list of clean nodes
                  boost::intrusive::link_mode<boost::intrusive::safe_link>> {
  NodeNo number;
  std::byte* image = nullptr;     // as it is now
  std::byte* sealed_image = nullptr;  // as the sealed transaction writes it, when changed since
  Seq dirty_seq;                  // newest transaction that changed it and is not durable; 0: clean
  Seq born_seq;                   // transaction that made it; 0: read from the log
  std::size_t dirty_index = 0;    // into the running transaction's list
  std::uint64_t version = 0;      // +1 before each change of what the node holds
  std::uint16_t next_insert = 0;  // where the next insertion is if items are inserted in order
  bool is_inner = false;          // not a leaf when it came into memory
  bool dead = false;              // freed; exists only until it is neither pinned nor written
  std::atomic<bool> referenced{true};
  std::atomic<std::uint32_t> pins{0};

  ConstNodePage page() const { return ConstNodePage(image); }
};

// Keeps a node in memory as long as the pin exists. Movable.
class NodePin {
 public:
  NodePin() = default;
  // The pin is taken already: this gives it back.
  explicit NodePin(Node& node) : node_(&node) {}
  NodePin(NodePin&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodePin& operator=(NodePin&& other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodePin() {
    if (node_ != nullptr) node_->pins.fetch_sub(1, std::memory_order_release);
  }
  Node& operator*() const { return *node_; }

 private:
  Node* node_ = nullptr;
};

// What a transaction has changed: nodes, and the numbers of those that it has freed.
struct Changes {
  Seq seq;
  std::vector<Node*> dirty;
  std::unordered_set<NodeNo> freed;
  std::uint64_t cleaned = 0;  // of dirty: unchanged, added by the cleaner
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

  Node* find(NodeNo number) const {
    const auto found = table_.find(number);
    return found == table_.end() ? nullptr : found->second;
  }
  static void touch(Node& node) {
    if (!node.referenced.load(std::memory_order_relaxed)) {
      node.referenced.store(true, std::memory_order_relaxed);
    }
  }

  std::byte* take_image() { return pool_.take(); }
  void give_back_image(std::byte* image) { pool_.give_back(image); }
  // A node that was read; takes the image over, and one pin for the caller. Evicts others.
  Node& insert_clean(NodeNo number, std::byte* image);
  // A new node, in the running transaction.
  Node& create(std::uint8_t level);
  // To be called before a change: the node belongs to the running transaction afterwards.
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
  // The running transaction is to be written; a new one runs. REQUIRES: none is sealed.
  void seal();
  // The image that the sealed transaction writes. Its bytes from kNodeStampBytes on do not
  // change.
  static std::byte* sealed_image_of(const Node& node) {
    return node.sealed_image != nullptr ? node.sealed_image : node.image;
  }
  // The nodes [from, to) of sealed().dirty have been written and are durable.
  void mark_durable(std::size_t from, std::size_t to);
  // All of them have. Returns the sealed changes: they may be many, and are best destroyed without
  // the lock.
  Changes end_sealed();

  std::size_t limit() const { return limit_nodes_; }
  // A lower limit is reached as nodes come and go.
  void set_limit(std::size_t nodes) { limit_nodes_ = nodes; }
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
  void add_to_table(Node& node);
  void take_from_table(Node& node);
  void add_to_running(Node& node);
  void evict();
  void retire(Node& node);
  void destroy(Node& node);

  std::size_t limit_nodes_;
  const std::uint32_t fs_tag_;
  ImagePool pool_;
  std::unordered_map<NodeNo, Node*> table_;
  boost::intrusive::list<Node> clean_;  // in the order of the clock
  std::vector<Node*> retired_;        // dead, perhaps pinned
  Changes running_, sealed_;
  NodeNo next_node_;
  std::uint64_t nodes_ = 0;
  std::size_t inner_ = 0;  // of table_
  std::uint64_t removals_ = 0;
};

}  // namespace lazyfs::meta
