// The tree in memory, with the one lock that guards it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/mutex.h"
#include "meta/log/log_layout.h"
#include "meta/store/brought_data.h"
#include "meta/tree/node_cache.h"
#include "meta/tree/tree.h"

namespace lazyfs::meta {

// `mu` is held for microseconds: no device I/O, no waiting, and at most kNodesPerLock nodes at a
// time by a commit.
struct SharedTree {
  static constexpr std::size_t kNodesPerLock = 256;
  // A single block that overwrites another one adds two extents, an append record and a delete
  // record: some 200 bytes, in nodes that are two thirds full.
  static constexpr std::uint64_t kBlocksRecordedInANode = 12;

  SharedTree(std::size_t nodes_cached_max, std::uint32_t fs_tag_of_volume, Seq running,
             NodeNo next_node, std::uint64_t nodes)
      : limit_nodes(nodes_cached_max),
        fs_tag(fs_tag_of_volume),
        cache(nodes_cached_max, fs_tag_of_volume, running, next_node, nodes),
        tree(cache) {}

  std::atomic<std::size_t> limit_nodes;  // in memory
  const std::uint32_t fs_tag;
  mutable SharedMutex mu;
  NodeCache cache GUARDED_BY(mu);
  Tree tree GUARDED_BY(mu);
  BroughtData brought GUARDED_BY(mu);  // by the running transaction
  std::function<std::uint64_t()> promised_blocks;  // of Store::promise_with()
  LogLimits limits GUARDED_BY(mu);
  // Numbers of dirty nodes in the running transaction. Above the low watermark the store's thread
  // commits it. Above the high watermark changes wait for the next transaction.
  std::size_t low_watermark GUARDED_BY(mu) = 0;
  std::size_t high_watermark GUARDED_BY(mu) = 0;

  // The most nodes that recording the promised blocks, and `more_blocks`, may make.
  std::uint64_t promised_nodes(std::uint64_t more_blocks = 0) const {
    const std::uint64_t blocks = more_blocks + (promised_blocks ? promised_blocks() : 0);
    return (blocks + kBlocksRecordedInANode - 1) / kBlocksRecordedInANode;
  }
  // The most blocks of the log that the running transaction and the cleaner may take.
  std::uint64_t blocks_needed() const EXCLUDES(mu) {
    ReaderLock lock(mu);
    const Changes& running = cache.running();
    return limits.cost(running.dirty.size(), running.freed.size()) + limits.reserve;
  }
  bool commit_is_due() const EXCLUDES(mu) {
    ReaderLock lock(mu);
    return cache.running().dirty.size() > low_watermark;
  }
};

}  // namespace lazyfs::meta
