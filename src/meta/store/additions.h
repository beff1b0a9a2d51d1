// What a transaction holds besides changes.
#pragma once

#include <optional>
#include <vector>

#include "base/buffer.h"
#include "meta/log/clean_policy.h"
#include "meta/log/log.h"
#include "meta/log/transaction.h"
#include "meta/tree/node_cache.h"

namespace lazyfs::meta {

// A node whose image fails validation: the image is copied verbatim.
struct DamagedNode {
  LogImage image;
  Log::Location place;  // where the cleaner read the image
  AlignedBuffer bytes;  // of the image
};

// The nodes that the cleaner moves, and a checkpoint of the map before the transaction.
struct Additions {
  std::vector<NodePin> nodes;  // in memory
  std::vector<DamagedNode> damaged;
  AlignedBuffer checkpoint;  // its pieces
  std::optional<CleanChoice> victim;
  std::vector<DescriptorEntry> cold_index;
  std::optional<ColdRoom> cold;  // where seal() has put both
  bool is_stuck = false;         // none of the victim's nodes can be read
  bool is_rescue = false;        // `nodes` and `damaged` are all that is live in the victim (L6)
  // Set by seal(): the data that the transaction names, and whether the transaction is written
  // after a flush, because it refers to blocks that it does not name.
  std::vector<DescriptorEntry> data;
  bool flushes_first = false;

  bool empty() const {
    return nodes.empty() && damaged.empty() && cold_index.empty() && checkpoint.size() == 0;
  }
  // Whether the transaction makes the victim a cold band.
  bool adopts() const {
    return victim && victim->kind == CleanChoice::Kind::kAdopt && !cold_index.empty();
  }
  std::size_t pieces() const { return checkpoint.size() / kBlockBytes; }
};

}  // namespace lazyfs::meta
