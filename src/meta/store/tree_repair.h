// Repairs a damaged tree (Store::repair()).
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "device/device.h"
#include "meta/log/log.h"
#include "meta/store/node_loader.h"
#include "meta/store/shared_tree.h"
#include "meta/store/store.h"

namespace lazyfs::meta {

struct RepairTarget {
  Store& store;
  device::Device& device;
  const Log& log;
  SharedTree& tree;
  NodeLoader& loader;
  Node& root;
  bool root_was_lost = false;  // `root` is an empty replacement
};

// Puts every node that can be read and holds items of the newest state back into the tree.
// Calls `report` with a sentence for each change, and `on_lost` as Store::repair() says.
// REQUIRES: no other thread uses the store.
Result<> repair_tree(const RepairTarget& target, const std::function<void(std::string)>& report,
                     const Store::LostListener& on_lost);

}  // namespace lazyfs::meta
