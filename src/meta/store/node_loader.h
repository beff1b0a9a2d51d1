// Reads nodes from the log into the cache, each one once however many want it, and with it those
// that lie beside it when the reader goes along the log, or when there is memory for them.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "device/device.h"
#include "meta/log/log.h"
#include "meta/tree/node_cache.h"
#include "meta/store/readahead.h"

namespace lazyfs::meta {

// Thread-safe. Device I/O is done with no lock held; mu_ is a leaf lock.
//
// Invariant: while a number stands in loading_, nobody else can bring the node into memory, so
// nobody can change it, and its place in the log stays what it is.
class NodeLoader {
 public:
  NodeLoader(device::Device& device, const Log& log, SharedMutex& tree_mu, NodeCache& cache)
      : device_(device), log_(log), tree_mu_(tree_mu), cache_(cache) {}
  ~NodeLoader() { stop(); }

  // From now on a thread reads what lies far ahead, until stop(). Without it the reader does that
  // himself.
  void start() EXCLUDES(mu_);
  void stop() EXCLUDES(mu_);

  // The node, in memory and pinned. Errors: kNodeMissing when the map does not have it (it may just
  // have been freed: look at the tree again), kNodeChecksumBad, kNodeBad, what the device returns.
  Result<NodePin> load(NodeNo number) EXCLUDES(mu_);
  std::uint64_t reads() const { return reads_.load(std::memory_order_relaxed); }

 private:
  struct Loading {
    bool done = false;
    bool ask_again = false;  // it was read ahead, which came to nothing
    unsigned waiters = 0;
    Node* node = nullptr;
    Errc error = Errc::kNodeMissing;
  };
  // A node to be read, whose number is in loading_.
  struct Wanted {
    NodeNo number;
    std::shared_ptr<Loading> loading;
    BandAddress address;
    std::byte* image = nullptr;
    Node* node = nullptr;  // once it is in memory
  };
  using Run = std::vector<Wanted>;
  // Blocks to read around a node.
  struct Ahead {
    NodeNo node;
    std::uint32_t before = 0, behind = 0;
  };

  Result<Node*> read(NodeNo number);
  Result<> read_place(NodeNo number, const Log::Location& place, std::byte* image);
  Result<> read_together(NodeNo number, const Log::Location& place, std::byte* image, Run& run);
  Readahead::Window window(const Log::Location& place, bool has_room) EXCLUDES(mu_);
  Run claim(std::span<const Log::LiveNode> nodes, Seq seq) EXCLUDES(mu_);
  bool read_run(BandAddress first, std::uint32_t blocks, Seq seq, Run& run);
  void insert(Run& run) REQUIRES(tree_mu_);
  void finish(const Run& run) EXCLUDES(mu_);
  void read_later(const Ahead& ahead) EXCLUDES(mu_);
  void read_ahead(const Ahead& ahead);
  void read_chunks(std::span<const Log::LiveNode> nodes, Seq seq);
  bool is_stopped() EXCLUDES(mu_);
  void run_thread();

  device::Device& device_;
  const Log& log_;
  SharedMutex& tree_mu_;
  NodeCache& cache_;  // guarded by tree_mu_
  std::atomic<std::uint64_t> reads_{0};
  Mutex mu_;
  CondVar loaded_;
  std::unordered_map<NodeNo, std::shared_ptr<Loading>> loading_ GUARDED_BY(mu_);
  Readahead readahead_ GUARDED_BY(mu_);
  CondVar wanted_;
  std::deque<Ahead> ahead_ GUARDED_BY(mu_);
  bool has_thread_ GUARDED_BY(mu_) = false;  // that has not been told to end
  std::thread thread_;
};

}  // namespace lazyfs::meta
