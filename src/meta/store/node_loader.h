// Reads nodes from the log into the cache. Each node is read once, however many threads want it.
// Reads the neighbours of a node with it if the reader goes along the log, or if the cache has room
// for them.
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
#include "meta/store/readahead.h"
#include "meta/store/shared_tree.h"
#include "meta/tree/node_cache.h"

namespace lazyfs::meta {

// Thread-safe. Device I/O is done with no lock held; mu_ is a leaf lock.
//
// Invariant:
//   N1  while a number is in loading_, only the thread that put it there can bring the node into
//       memory; so the node cannot change, and its place in the log stays the same
class NodeLoader {
 public:
  NodeLoader(device::Device& device, const Log& log, SharedTree& tree)
      : device_(device), log_(log), tree_(tree) {}
  ~NodeLoader() { stop(); }

  // Starts a thread that reads the nodes that lie far ahead, until stop(). Without the thread
  // load() reads them. Errors: those of start_thread().
  Result<> start() EXCLUDES(mu_);
  void stop() EXCLUDES(mu_);

  // The node, in memory and pinned. Errors: kNodeMissing when the map does not have it (it may just
  // have been freed: the caller asks the tree again), kNodeChecksumBad, kNodeBad, those of the
  // device.
  Result<NodePin> load(NodeNo number) EXCLUDES(mu_);
  // The same, but an error, or wrong bytes, may be temporary: reads again, from the medium.
  Result<NodePin> load_twice(NodeNo number) EXCLUDES(mu_);
  std::uint64_t reads() const { return reads_.load(std::memory_order_relaxed); }

 private:
  struct Loading {
    bool done = false;
    bool ask_again = false;  // reading it ahead has failed
    unsigned waiters = 0;
    Node* node = nullptr;
    Errc error = Errc::kNodeMissing;
  };
  // A node to be read. Its number is in loading_.
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
    std::uint32_t before = 0, after = 0;
  };

  Result<Node*> try_read(NodeNo number) EXCLUDES(tree_.mu);
  void abandon(Run& run) EXCLUDES(mu_, tree_.mu);
  void claim_unread(std::span<const Log::LiveNode> nodes, Run& claimed) EXCLUDES(mu_);
  Result<Node*> read(NodeNo number, std::byte*& image, Run& run);
  Result<> read_place(NodeNo number, const Log::Location& place, std::byte* image);
  Result<> read_together(NodeNo number, const Log::Location& place, std::byte* image, Run& run);
  Readahead::Window window(const Log::Location& place, bool has_room) EXCLUDES(mu_);
  Run claim(std::span<const Log::LiveNode> nodes, Seq seq) EXCLUDES(mu_);
  bool read_run(BandAddress first, std::uint32_t blocks, Seq seq, Run& run);
  void insert(Run& run) REQUIRES(tree_.mu);
  void finish(const Run& run) EXCLUDES(mu_);
  void read_later(const Ahead& ahead) EXCLUDES(mu_);
  void read_ahead(const Ahead& ahead);
  void read_chunks(std::span<const Log::LiveNode> nodes, Seq seq);
  bool is_stopped() EXCLUDES(mu_);
  void run_thread();

  device::Device& device_;
  const Log& log_;
  SharedTree& tree_;
  std::atomic<std::uint64_t> reads_{0};
  Mutex mu_;
  CondVar loaded_;
  std::unordered_map<NodeNo, std::shared_ptr<Loading>> loading_ GUARDED_BY(mu_);
  Readahead readahead_ GUARDED_BY(mu_);
  CondVar wanted_;
  std::deque<Ahead> ahead_ GUARDED_BY(mu_);
  bool has_thread_ GUARDED_BY(mu_) = false;  // started, and not ended by stop()
  std::thread thread_;
};

}  // namespace lazyfs::meta
