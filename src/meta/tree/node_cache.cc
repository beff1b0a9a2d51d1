#include "meta/tree/node_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace lazyfs::meta {
namespace {

constexpr std::size_t kEvictSteps = 1024;  // at a time, so that no thread waits long for the tree

// Makes room for `more` elements, so that adding them needs no memory.
template <class T>
void make_room(std::vector<T>& list, std::size_t more) {
  if (list.capacity() - list.size() >= more) return;
  list.reserve(std::max(2 * list.capacity(), list.size() + more));
}

}  // namespace

void ImagePool::add_chunk() {
  LargePages chunk(kLargePageBytes);
  const std::size_t images = (chunks_.size() + 1) * (chunk.size() / kBlockBytes);
  make_room(spare_, images - spare_.size());  // all may be given back
  chunks_.push_back(std::move(chunk));
  for (std::size_t end = chunks_.back().size(); end > 0; end -= kBlockBytes) {
    spare_.push_back(chunks_.back().data() + end - kBlockBytes);
  }
}

std::byte* ImagePool::take() {
  if (spare_.empty()) add_chunk();
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

void NodeCache::provide(std::uint64_t dirty, std::uint64_t made, std::uint64_t freed) {
  pool_.provide(dirty);
  make_room(running_.dirty, dirty);
  if (made > spare_nodes_.size()) {
    make_room(spare_nodes_, made - spare_nodes_.size());
    while (spare_nodes_.size() < made) spare_nodes_.push_back(std::make_unique<Node>());
  }
  if (freed > 0) provide_to_free(freed);
}

void NodeCache::provide_to_free(std::uint64_t freed) {
  make_room(retired_, dying_ + freed);
  FreedNodes& numbers = running_.freed;
  const auto room =
      static_cast<double>(numbers.bucket_count()) * static_cast<double>(numbers.max_load_factor());
  const std::size_t size = numbers.size() + freed;
  if (static_cast<double>(size) > room) numbers.reserve(2 * size);
  if (freed <= spare_freed_.size()) return;
  make_room(spare_freed_, freed - spare_freed_.size());
  FreedNodes made;
  for (std::uint64_t i = spare_freed_.size(); i < freed; ++i) made.insert(NodeNo{i});
  while (!made.empty()) spare_freed_.push_back(made.extract(made.begin()));
}

void NodeCache::note_freed(NodeNo number) {
  if (spare_freed_.empty()) {
    running_.freed.insert(number);
    return;
  }
  FreedNodes::node_type entry = std::move(spare_freed_.back());
  spare_freed_.pop_back();
  entry.value() = number;
  running_.freed.insert(std::move(entry));
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
  provide(1, 1, 0);
  Node& node = *spare_nodes_.back().release();
  spare_nodes_.pop_back();
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
  provide(1, 0, 0);
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
  make_room(retired_, dying_ + 1);
  take_from_table(node);
  --nodes_;
  const bool never_written = node.born_seq == running_.seq;
  if (!never_written) note_freed(node.number);
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
  if (is_being_written(node)) {
    ++dying_;
  } else {
    retire(node);
  }
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
      --dying_;
      retire(node);
    } else if (unchanged) {
      clean_.push_back(node);
    }
  }
  evict();
}

Changes NodeCache::end_sealed() {
  std::erase_if(retired_, [this](Node* node) {
    const bool is_free = node->pins.load(std::memory_order_acquire) == 0;
    if (is_free) destroy(*node);
    return is_free;
  });
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
