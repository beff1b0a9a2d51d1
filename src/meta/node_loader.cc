#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "meta/store_impl.h"

namespace lazyfs::meta {

// While the number stands in loading_, nobody else can bring the node into memory, so nobody can
// change it, and its place in the log stays what it is.
Result<NodePin> NodeLoader::load(NodeNo number) {
  std::shared_ptr<Loading> loading;
  {
    MutexLock lock(mu_);
    for (;;) {
      auto& entry = loading_[number];
      if (!entry) {
        entry = loading = std::make_shared<Loading>();
        break;
      }
      loading = entry;
      ++loading->waiters;
      while (!loading->done) loaded_.wait(mu_);
      if (loading->ask_again) continue;
      if (loading->node == nullptr) return fail(loading->error);
      return NodePin(*loading->node);  // the loader took the pin for us
    }
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

Result<> NodeLoader::read_place(NodeNo number, const Log::Location& place, std::byte* image) {
  reads_.fetch_add(1, std::memory_order_relaxed);
  TRY(device_.read(place.address, {image, kBlockBytes}));
  return validate_node(std::span<const std::byte, kBlockBytes>(image, kBlockBytes), number,
                       place.seq, cache_.fs_tag());
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
  Result<> trouble = fail(Errc::kNodeMissing);
  std::vector<Wanted> run;
  if (const auto place = log_.find(number)) {
    run = claim_run(number, *place);
    const bool was_read = !run.empty() && read_run(*place, image, run);
    const auto whole = std::span<const std::byte, kBlockBytes>(image, kBlockBytes);
    if (!was_read || !validate_node(whole, number, place->seq, cache_.fs_tag())) {
      trouble = read_place(number, *place, image);
    } else {
      trouble = ok();
    }
    if (!trouble) {
      log::error("node {} of transaction {} at band {} block {}: {}", number.value,
                 place->seq.value, place->address.band.value, place->address.rba,
                 describe(trouble.error()));
    }
  }
  Node* node = nullptr;
  {
    WriterLock lock(tree_mu_);
    const bool freed = cache_.is_freed(number);
    if (trouble && freed) trouble = fail(Errc::kNodeMissing);
    if (trouble) {
      node = &cache_.insert_clean(number, image);
    } else {
      cache_.give_back_image(image);
    }
    for (Wanted& wanted : run) {
      if (wanted.image == nullptr) continue;
      if (cache_.is_freed(wanted.number)) {
        cache_.give_back_image(wanted.image);
      } else {
        wanted.node = &cache_.insert_clean(wanted.number, wanted.image);
        wanted.node->referenced.store(false, std::memory_order_relaxed);
      }
    }
  }
  finish(run);
  if (!trouble) return fail(trouble.error());
  return node;
}

// ---- Reading ahead ------------------------------------------------------------------------------

// The nodes to read together with this one, which they follow. Each is claimed in loading_ first
// and looked at afterwards: from then on its place stays what it is.
std::vector<NodeLoader::Wanted> NodeLoader::claim_run(NodeNo number, const Log::Location& first) {
  std::uint32_t blocks = 0;
  {
    MutexLock lock(mu_);
    blocks = readahead_.blocks(first.address);
  }
  blocks = std::min<std::uint32_t>(blocks, static_cast<std::uint32_t>(cache_.limit() / 8));
  if (blocks <= 1) return {};
  std::vector<Wanted> claimed;
  {
    const auto found = log_.find_run(number, blocks);
    MutexLock lock(mu_);
    for (const Log::LiveNode& live : found) {
      if (live.node == number) continue;
      auto& entry = loading_[live.node];
      if (entry) continue;  // somebody reads it just now
      entry = std::make_shared<Loading>();
      claimed.push_back({live.node, entry, live.address});
    }
  }
  WriterLock lock(tree_mu_);
  for (Wanted& wanted : claimed) {
    const auto place = log_.find(wanted.number);
    const bool stays = place && place->address == wanted.address && place->seq == first.seq;
    if (stays && cache_.find(wanted.number) == nullptr && !cache_.is_freed(wanted.number)) {
      wanted.image = cache_.take_image();
    }
  }
  return claimed;
}

// Reads from `first` to the last of the run at once; false when that failed. Images that could not
// be read, or are not what they should be, are given back: whoever wants such a node hears of it
// then.
bool NodeLoader::read_run(const Log::Location& first, std::byte* image, std::vector<Wanted>& run) {
  std::uint32_t end = first.address.rba + 1;
  for (const Wanted& wanted : run) {
    if (wanted.image != nullptr) end = std::max(end, wanted.address.rba + 1);
  }
  AlignedBuffer bytes(std::size_t{end - first.address.rba} * kBlockBytes);
  reads_.fetch_add(1, std::memory_order_relaxed);
  const bool good = device_.read(first.address, bytes.span()).has_value();
  if (good) std::memcpy(image, bytes.data(), kBlockBytes);
  std::vector<std::byte*> useless;
  for (Wanted& wanted : run) {
    if (wanted.image == nullptr) continue;
    const std::size_t at = std::size_t{wanted.address.rba - first.address.rba} * kBlockBytes;
    const auto read = bytes.span().subspan(at).first<kBlockBytes>();
    if (good && validate_node(read, wanted.number, first.seq, cache_.fs_tag())) {
      std::memcpy(wanted.image, read.data(), kBlockBytes);
    } else {
      useless.push_back(std::exchange(wanted.image, nullptr));
    }
  }
  if (useless.empty()) return good;
  WriterLock lock(tree_mu_);
  for (std::byte* unused : useless) cache_.give_back_image(unused);
  return good;
}

// Those who waited for nodes of the run get them, or ask again themselves.
void NodeLoader::finish(const std::vector<Wanted>& run) {
  if (run.empty()) return;
  MutexLock lock(mu_);
  for (const Wanted& wanted : run) {
    loading_.erase(wanted.number);
    Loading& loading = *wanted.loading;
    loading.done = true;
    loading.node = wanted.node;
    loading.ask_again = wanted.node == nullptr;
    if (wanted.node == nullptr) continue;
    wanted.node->pins.fetch_add(loading.waiters, std::memory_order_relaxed);
    wanted.node->pins.fetch_sub(1, std::memory_order_release);  // insert_clean()'s
  }
  loaded_.notify_all();
}

}  // namespace lazyfs::meta
