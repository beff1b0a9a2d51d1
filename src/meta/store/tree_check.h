// Checks the whole tree and the map (Store::check()).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>

#include "device/device.h"
#include "meta/log/log.h"
#include "meta/store/node_loader.h"
#include "meta/store/shared_tree.h"
#include "meta/store/store.h"

namespace lazyfs::meta {

// REQUIRES: no cycle and no apply() runs meanwhile.
class TreeCheck {
 public:
  TreeCheck(device::Device& device, const Log& log, SharedTree& tree, NodeLoader& loader,
            const CheckListener& listener)
      : device_(device), log_(log), tree_(tree), loader_(loader), listener_(listener) {}

  void run();

 private:
  bool visit_tree(std::unordered_set<NodeNo>& visited);
  void problem(std::string text) const { listener_.problem(std::move(text)); }
  void count_node();

  device::Device& device_;
  const Log& log_;
  SharedTree& tree_;
  NodeLoader& loader_;
  const CheckListener& listener_;
  std::uint64_t done_ = 0, total_ = 0;  // nodes, for progress
};

}  // namespace lazyfs::meta
