#include "meta/tree/node_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace lazyfs::meta {
namespace {

constexpr std::size_t kEvictSteps = 1024;  // at a time, so that no thread waits long for the tree

}  // namespace

std::byte* ImagePool::take() {
  if (spare_.empty()) {
    LargePages& chunk = chunks_.emplace_back(kLargePageBytes);
    for (std::size_t end = chunk.size(); end > 0; end -= kBlockBytes) {
      spare_.push_back(chunk.data() + end - kBlockBytes);
    }
  }
  std::byte* image = spare_.back();
  spare_.pop_back();
  return image;
}

NodeCache::NodeCache(std::size_t limit_nodes, std::uint32_t fs_tag, Seq running, NodeNo next_node,
                     std::uint64_t nodes)
    : limit_nodes_(limit_nodes),
      fs_tag_(fs_tag),
      table_(limit_nodes),
      next_node_(next_node),
      nodes_(nodes) {
  running_.seq = running;
}

NodeCache::~NodeCache() {
  clean_.clear();
  for (Node* node : sealed_.dirty) {  // of a commit that failed; those not dead are in the table
    if (node->dead) delete node;
  }
  for (Node* node : retired_) delete node;
  table_.clear([](Node* node) { delete node; });
}

void NodeCache::set_limit(std::size_t nodes) {
  limit_nodes_ = nodes;
  table_.expect(nodes);
}

Node& NodeCache::insert_clean(NodeNo number, std::byte* image) {
  Node& node = *new Node;
  node.number = number;
  node.image = image;
  node.pins.store(1, std::memory_order_relaxed);
  add_to_table(node);
  clean_.push_back(node);
  evict();
  return node;
}

Node& NodeCache::create(std::uint8_t level) {
  Node& node = *new Node;
  node.number = next_node_;
  ++next_node_.value;
  ++nodes_;
  node.image = pool_.take();
  node.born_seq = running_.seq;
  NodePage(node.image).format(node.number, level, fs_tag_);
  add_to_table(node);
  add_to_running(node);
  return node;
}

void NodeCache::add_to_table(Node& node) {
  node.is_inner = !node.page().is_leaf();
  inner_ += node.is_inner;
  CHECK(table_.insert(node));
}

void NodeCache::take_from_table(Node& node) {
  inner_ -= node.is_inner;
  ++removals_;
  table_.erase(node);
}

void NodeCache::add_to_running(Node& node) {
  node.dirty_seq = running_.seq;
  node.dirty_index = running_.dirty.size();
  running_.dirty.push_back(&node);
}

NodePage NodeCache::make_dirty(Node& node) {
  ++node.version;
  if (node.dirty_seq == running_.seq) return NodePage(node.image);
  if (is_being_written(node)) {  // C2
    std::byte* copy = pool_.take();
    std::memcpy(copy + kNodeStampBytes, node.image + kNodeStampBytes,
                kBlockBytes - kNodeStampBytes);
    node.sealed_image = std::exchange(node.image, copy);
  } else {
    clean_.erase(clean_.iterator_to(node));  // C3
  }
  add_to_running(node);
  return NodePage(node.image);
}

void NodeCache::free_node(Node& node) {
  take_from_table(node);
  --nodes_;
  const bool never_written = node.born_seq == running_.seq;
  if (!never_written) running_.freed.insert(node.number);
  if (node.dirty_seq == running_.seq) {  // C1
    Node* last = running_.dirty.back();
    running_.dirty[node.dirty_index] = last;
    last->dirty_index = node.dirty_index;
    running_.dirty.pop_back();
    node.dirty_seq = node.sealed_image != nullptr ? sealed_.seq : Seq{};
  } else if (!is_being_written(node)) {
    clean_.erase(clean_.iterator_to(node));
  }
  node.dead = true;
  if (!is_being_written(node)) retire(node);
}

void NodeCache::free_unread(NodeNo number) {
  CHECK(find(number) == nullptr);
  running_.freed.insert(number);
  --nodes_;
}

void NodeCache::seal() {
  CHECK(sealed_.seq.value == 0);
  std::swap(sealed_, running_);
  sealed_.next_node = next_node_;
  running_.seq = Seq{sealed_.seq.value + 1};
}

void NodeCache::mark_durable(std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    Node& node = *sealed_.dirty[i];
    if (node.sealed_image != nullptr) pool_.give_back(std::exchange(node.sealed_image, nullptr));
    const bool unchanged = node.dirty_seq == sealed_.seq;
    if (unchanged) node.dirty_seq = Seq{};
    if (node.dead) {
      retire(node);
    } else if (unchanged) {
      clean_.push_back(node);
    }
  }
  evict();
}

Changes NodeCache::end_sealed() {
  std::vector<Node*> retired = std::exchange(retired_, {});
  for (Node* node : retired) retire(*node);
  evict();
  return std::exchange(sealed_, {});
}

// Inner nodes stay. About one node in a hundred is an inner node, and with all of them in memory a
// lookup reads only its leaf. They are evicted like others only when they fill half of a very small
// cache.
void NodeCache::evict() {
  // One round clears the marks, the next round finds nodes to evict. The next call continues.
  std::size_t steps = std::min(2 * clean_.size(), kEvictSteps);
  while (table_.size() > limit_nodes_ && !clean_.empty() && steps-- > 0) {
    Node& node = clean_.front();
    clean_.pop_front();
    const bool keep = node.pins.load(std::memory_order_acquire) > 0 ||  // C4
                      node.referenced.exchange(false, std::memory_order_relaxed) ||
                      (node.is_inner && inner_ <= limit_nodes_ / 2);
    if (keep) {
      clean_.push_back(node);
    } else {
      take_from_table(node);
      destroy(node);
    }
  }
}

void NodeCache::retire(Node& node) {
  if (node.pins.load(std::memory_order_acquire) > 0) {
    retired_.push_back(&node);
  } else {
    destroy(node);
  }
}

void NodeCache::destroy(Node& node) {
  pool_.give_back(node.image);
  delete &node;
}

}  // namespace lazyfs::meta
