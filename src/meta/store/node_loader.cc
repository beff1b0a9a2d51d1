#include "meta/store/node_loader.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/thread.h"

namespace lazyfs::meta {
namespace {

constexpr std::size_t kMaxAhead = 4;         // if there are more, the oldest is dropped
constexpr std::uint32_t kChunkBlocks = 128;  // read ahead at once: a reader may wait for one
constexpr std::uint32_t kMaxGapBlocks = 32;  // reading this gap costs less than another read

}  // namespace

Result<> NodeLoader::start() {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(thread_, start_thread([this] { run_thread(); }));
  has_thread_ = true;
  return ok();
}

void NodeLoader::stop() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mu_);
    has_thread_ = false;
  }
  wanted_.notify_all();
  thread_.join();
}

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
  const Result<Node*> node = try_read(number);
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

Result<NodePin> NodeLoader::load_twice(NodeNo number) {
  if (auto node = load(number)) return node;
  if (const auto place = log_.find(number)) device_.forget_copies(place->address.band);
  return load(number);
}

Result<> NodeLoader::read_place(NodeNo number, const Log::Location& place, std::byte* image) {
  reads_.fetch_add(1, std::memory_order_relaxed);
  TRY(device_.read(place.address, {image, kBlockBytes}));
  return validate_node(std::span<const std::byte, kBlockBytes>(image, kBlockBytes), number,
                       place.seq, tree_.fs_tag);
}

Result<Node*> NodeLoader::try_read(NodeNo number) {
  std::byte* image = nullptr;  // not in the cache
  Run run;
  try {
    return read(number, image, run);
  } catch (const std::bad_alloc&) {
    abandon(run);
    WriterLock lock(tree_.mu);
    if (image != nullptr) tree_.cache.give_back_image(image);
    return fail(Errc::kNoMemory);
  }
}

// Other threads load what they need of the run themselves.
void NodeLoader::abandon(Run& run) {
  {
    WriterLock lock(tree_.mu);
    for (Wanted& wanted : run) {
      std::byte* const unused = wanted.node == nullptr ? wanted.image : nullptr;
      if (unused != nullptr && wanted.loading) tree_.cache.give_back_image(unused);
    }
  }
  std::erase_if(run, [](const Wanted& wanted) { return !wanted.loading; });
  finish(run);
}

// Returns the node with one pin taken.
Result<Node*> NodeLoader::read(NodeNo number, std::byte*& image, Run& run) {
  bool has_room = false;
  {
    WriterLock lock(tree_.mu);
    if (Node* node = tree_.cache.find(number); node != nullptr) {
      node->pins.fetch_add(1, std::memory_order_relaxed);
      return node;
    }
    if (tree_.cache.is_freed(number)) return fail(Errc::kNodeMissing);
    image = tree_.cache.take_image();
    has_room = tree_.cache.cached() + std::size_t{2} * Readahead::kMaxRoomyBlocks <=
               tree_.limit_nodes;
  }
  Result<> trouble = fail(Errc::kNodeMissing);
  std::optional<Ahead> ahead;
  if (const auto place = log_.find(number)) {
    const Readahead::Window wanted = window(*place, has_room);
    const auto nodes = log_.find_run(number, wanted.before, wanted.after);
    run = claim(nodes, place->seq);
    if (wanted.later_after > 0) {
      ahead = Ahead{number, wanted.later_before, wanted.after + wanted.later_after};
    }
    trouble = read_together(number, *place, image, run);
    if (!trouble) {
      log::error("node {} of transaction {} at band {} block {}: {}", number.value,
                 place->seq.value, place->address.band.value, place->address.rba,
                 describe(trouble.error()));
    }
  }
  Node* node = nullptr;
  {
    WriterLock lock(tree_.mu);
    if (trouble && tree_.cache.is_freed(number)) trouble = fail(Errc::kNodeMissing);
    if (trouble) {
      node = &tree_.cache.insert_clean(number, image);
    } else {
      tree_.cache.give_back_image(image);
    }
    image = nullptr;
    insert(run);
  }
  finish(run);
  if (ahead) read_later(*ahead);
  if (!trouble) return fail(trouble.error());
  return node;
}

// Reads the node together with the nodes of the run. Gives back the images of nodes that cannot be
// read.
Result<> NodeLoader::read_together(NodeNo number, const Log::Location& place, std::byte* image,
                                   Run& run) {
  if (run.empty()) return read_place(number, place, image);
  // During the read the node is part of the run.
  Wanted self{number, nullptr, place.address, image, nullptr};
  const auto at = std::ranges::count_if(
      run, [&](const Wanted& wanted) { return wanted.address.rba < place.address.rba; });
  run.insert(run.begin() + at, self);
  const std::uint32_t first = run.front().address.rba;
  const bool good =
      read_run({place.address.band, first}, run.back().address.rba - first + 1, place.seq, run) &&
      run[static_cast<std::size_t>(at)].image != nullptr;
  run.erase(run.begin() + at);
  return good ? ok() : read_place(number, place, image);
}

// ---- Reading ahead ------------------------------------------------------------------------------

Readahead::Window NodeLoader::window(const Log::Location& place, bool has_room) {
  MutexLock lock(mu_);
  Readahead::Window window = readahead_.window(place.address, has_room);
  const auto most = static_cast<std::uint32_t>(std::max<std::size_t>(tree_.limit_nodes / 8, 1));
  window.after = std::min(window.after, most);
  window.later_after = std::min(window.later_after, most - window.after);
  if (!has_thread_) window.after += std::exchange(window.later_after, 0);
  return window;
}

void NodeLoader::claim_unread(std::span<const Log::LiveNode> nodes, Run& claimed) {
  MutexLock lock(mu_);
  for (const Log::LiveNode& live : nodes) {
    auto& entry = loading_[live.node];
    if (entry) continue;  // another thread reads it now
    entry = std::make_shared<Loading>();
    claimed.push_back({live.node, entry, live.address});
  }
}

// Claims those of `nodes` that are neither in memory nor being read. `nodes` lie in one
// transaction's part, in the order of their addresses. Each is claimed in loading_ before its place
// is checked, because from then on its place stays the same (N1).
NodeLoader::Run NodeLoader::claim(std::span<const Log::LiveNode> nodes, Seq seq) {
  Run claimed, kept, useless;
  for (Run* run : {&claimed, &kept, &useless}) run->reserve(nodes.size() + 1);
  try {
    claim_unread(nodes, claimed);
  } catch (const std::bad_alloc&) {
    abandon(claimed);
    throw;
  }
  if (claimed.empty()) return claimed;
  {
    WriterLock lock(tree_.mu);
    for (Wanted& wanted : claimed) {
      const auto place = log_.find(wanted.number);
      const bool stays = place && place->address == wanted.address && place->seq == seq;
      if (stays && tree_.cache.find(wanted.number) == nullptr &&
          !tree_.cache.is_freed(wanted.number)) {
        wanted.image = tree_.cache.take_or_null();
      }
    }
  }
  for (Wanted& wanted : claimed) (wanted.image ? kept : useless).push_back(std::move(wanted));
  finish(useless);
  return kept;
}

// Reads `blocks` blocks from `first` on at once; false when that failed. Gives back images that
// could not be read or fail validation, except the image of a node without `loading`, which its
// reader owns. A caller that needs such a node later gets the error then.
bool NodeLoader::read_run(BandAddress first, std::uint32_t blocks, Seq seq, Run& run) {
  AlignedBuffer bytes(std::size_t{blocks} * kBlockBytes);
  reads_.fetch_add(1, std::memory_order_relaxed);
  const bool good = device_.read(first, bytes.span()).has_value();
  std::vector<std::byte*> useless;
  for (Wanted& wanted : run) {
    const std::size_t at = std::size_t{wanted.address.rba - first.rba} * kBlockBytes;
    const auto read = std::span<const std::byte>(bytes.span()).subspan(at).first<kBlockBytes>();
    if (good && validate_node(read, wanted.number, seq, tree_.fs_tag)) {
      std::memcpy(wanted.image, read.data(), kBlockBytes);
      continue;
    }
    std::byte* const image = std::exchange(wanted.image, nullptr);
    if (wanted.loading) useless.push_back(image);
  }
  if (useless.empty()) return good;
  WriterLock lock(tree_.mu);
  for (std::byte* unused : useless) tree_.cache.give_back_image(unused);
  return good;
}

void NodeLoader::insert(Run& run) {
  for (Wanted& wanted : run) {
    if (wanted.image == nullptr) continue;
    if (tree_.cache.is_freed(wanted.number)) {
      tree_.cache.give_back_image(wanted.image);
    } else {
      wanted.node = &tree_.cache.insert_clean(wanted.number, wanted.image);
      wanted.node->referenced.store(false, std::memory_order_relaxed);
    }
  }
}

// Notifies threads that wait for nodes of the run. They get the nodes, or load them themselves.
void NodeLoader::finish(const Run& run) {
  if (run.empty()) return;
  MutexLock lock(mu_);
  bool awaited = false;
  for (const Wanted& wanted : run) {
    loading_.erase(wanted.number);
    Loading& loading = *wanted.loading;
    loading.done = true;
    loading.node = wanted.node;
    loading.ask_again = wanted.node == nullptr;
    awaited |= loading.waiters > 0;
    if (wanted.node == nullptr) continue;
    wanted.node->pins.fetch_add(loading.waiters, std::memory_order_relaxed);
    wanted.node->pins.fetch_sub(1, std::memory_order_release);  // insert_clean()'s
  }
  if (awaited) loaded_.notify_all();
}

void NodeLoader::read_later(const Ahead& ahead) {
  {
    MutexLock lock(mu_);
    if (ahead_.size() == kMaxAhead) ahead_.pop_front();
    ahead_.push_back(ahead);
  }
  wanted_.notify_one();
}

// Reads the nodes after the missed one first.
void NodeLoader::read_ahead(const Ahead& ahead) try {
  const auto place = log_.find(ahead.node);
  if (!place) return;
  const auto found = log_.find_run(ahead.node, ahead.before, ahead.after);
  const std::span<const Log::LiveNode> nodes(found);
  const auto at = static_cast<std::size_t>(
      std::ranges::find(found, ahead.node, &Log::LiveNode::node) - found.begin());
  read_chunks(nodes.subspan(at), place->seq);
  read_chunks(nodes.first(at), place->seq);
} catch (const std::bad_alloc&) {
  return;  // nobody waits for it
}

// Reads in chunks. No chunk crosses a gap longer than kMaxGapBlocks.
void NodeLoader::read_chunks(std::span<const Log::LiveNode> nodes, Seq seq) {
  while (!nodes.empty() && !is_stopped()) {
    std::size_t count = 1;
    while (count < nodes.size() &&
           nodes[count].address.rba - nodes[count - 1].address.rba <= kMaxGapBlocks &&
           nodes[count].address.rba - nodes[0].address.rba < kChunkBlocks) {
      ++count;
    }
    Run run = claim(nodes.first(count), seq);
    nodes = nodes.subspan(count);
    if (run.empty()) continue;
    const BandAddress first = run.front().address;
    try {
      read_run(first, run.back().address.rba - first.rba + 1, seq, run);
      WriterLock lock(tree_.mu);
      insert(run);
    } catch (const std::bad_alloc&) {
      return abandon(run);
    }
    finish(run);
  }
}

bool NodeLoader::is_stopped() {
  MutexLock lock(mu_);
  return !has_thread_;
}

void NodeLoader::run_thread() {
  for (;;) {
    Ahead next;
    {
      MutexLock lock(mu_);
      while (ahead_.empty() && has_thread_) wanted_.wait(mu_);
      if (!has_thread_) return;
      next = ahead_.back();  // what the reader wants now
      ahead_.pop_back();
    }
    read_ahead(next);
  }
}

}  // namespace lazyfs::meta
