#include "base/log.h"
#include "meta/store_impl.h"

namespace lazyfs::meta {

// While the number stands in loading_, nobody else can bring the node into memory, so nobody can
// change it, and its place in the log stays what it is.
Result<NodePin> NodeLoader::load(NodeNo number) {
  std::shared_ptr<Loading> loading;
  {
    MutexLock lock(mu_);
    auto& entry = loading_[number];
    if (entry) {
      loading = entry;
      ++loading->waiters;
      while (!loading->done) loaded_.wait(mu_);
      if (loading->node == nullptr) return fail(loading->error);
      return NodePin(*loading->node);  // the loader took the pin for us
    }
    entry = loading = std::make_shared<Loading>();
  }
  const Result<Node*> node = read(number);
  MutexLock lock(mu_);
  loading_.erase(number);
  loading->done = true;
  if (node) {
    loading->node = *node;
    (*node)->pins.fetch_add(loading->waiters, std::memory_order_relaxed);
  } else {
    loading->error = node.error();
  }
  if (loading->waiters > 0) loaded_.notify_all();
  if (!node) return fail(node.error());
  return NodePin(**node);
}

// The node with one pin taken.
Result<Node*> NodeLoader::read(NodeNo number) {
  std::byte* image = nullptr;
  {
    WriterLock lock(tree_mu_);
    if (Node* node = cache_.find(number); node != nullptr) {
      node->pins.fetch_add(1, std::memory_order_relaxed);
      return node;
    }
    if (cache_.is_freed(number)) return fail(Errc::kNodeMissing);
    image = cache_.take_image();
  }
  Result<> trouble = ok();
  if (const auto place = log_.find(number); !place) {
    trouble = fail(Errc::kNodeMissing);
  } else {
    reads_.fetch_add(1, std::memory_order_relaxed);
    trouble = device_.read(place->address, {image, kBlockBytes});
    if (trouble) {
      trouble = validate_node(std::span<const std::byte, kBlockBytes>(image, kBlockBytes), number,
                              place->seq, cache_.fs_tag());
    }
    if (!trouble) {
      log::error("node {} of transaction {} at band {} block {}: {}", number.value,
                 place->seq.value, place->address.band.value, place->address.rba,
                 describe(trouble.error()));
    }
  }
  WriterLock lock(tree_mu_);
  if (trouble && !cache_.is_freed(number)) return &cache_.insert_clean(number, image);
  cache_.give_back_image(image);
  return fail(trouble ? Errc::kNodeMissing : trouble.error());
}

}  // namespace lazyfs::meta
