// Checks the whole tree and the map (Store::check()).
#pragma once

#include <functional>
#include <string>
#include <unordered_set>

#include "device/device.h"
#include "meta/log/log.h"
#include "meta/store/node_loader.h"
#include "meta/store/shared_tree.h"

namespace lazyfs::meta {

// REQUIRES: no cycle and no apply() runs meanwhile.
class TreeCheck {
 public:
  TreeCheck(device::Device& device, const Log& log, SharedTree& tree, NodeLoader& loader,
            const std::function<void(std::string)>& problem)
      : device_(device), log_(log), tree_(tree), loader_(loader), problem_(problem) {}

  void run();

 private:
  bool visit_tree(std::unordered_set<NodeNo>& visited);

  device::Device& device_;
  const Log& log_;
  SharedTree& tree_;
  NodeLoader& loader_;
  const std::function<void(std::string)>& problem_;
};

}  // namespace lazyfs::meta
