// A node of the tree in memory.
#pragma once

#include <atomic>
#include <boost/intrusive/list_hook.hpp>
#include <boost/intrusive/unordered_set_hook.hpp>
#include <cstdint>
#include <utility>

#include "base/types.h"
#include "meta/tree/node_page.h"

namespace lazyfs::meta {

using NodeTableHook = boost::intrusive::unordered_set_base_hook<
    boost::intrusive::link_mode<boost::intrusive::safe_link>>;

// A node in memory. NodeCache owns it, and its images, which come from the pool.
struct Node : NodeTableHook,
              boost::intrusive::list_base_hook<  // NodeCache's list of clean nodes
                  boost::intrusive::link_mode<boost::intrusive::safe_link>> {
  // The fields that a search needs come first, so that they lie in one or two cache lines.
  NodeNo number;
  std::byte* image = nullptr;  // the present image
  std::atomic<bool> referenced{true};
  bool is_inner = false;  // it was no leaf when it came into memory
  bool dead = false;      // freed; exists only until it is neither pinned nor written
  std::byte* sealed_image = nullptr;  // for the sealed transaction, if changed since
  Seq dirty_seq;                  // newest transaction that changed it and is not durable; 0: clean
  Seq born_seq;                   // transaction that made it; 0: read from the log
  std::size_t dirty_index = 0;    // into the running transaction's list
  std::uint64_t version = 0;      // +1 before each change of what the node holds
  std::uint16_t next_insert = 0;  // where the next insertion is if items are inserted in order
  std::atomic<std::uint32_t> pins{0};

  ConstNodePage page() const { return ConstNodePage(image); }
};

// Keeps a node in memory as long as the pin exists. Movable.
class NodePin {
 public:
  NodePin() = default;
  // REQUIRES: the pin is already taken. The destructor gives it back.
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

}  // namespace lazyfs::meta
