#include "meta/store/tree_check.h"

#include <fmt/core.h>

#include <optional>
#include <vector>

#include "meta/store/image_scan.h"

namespace lazyfs::meta {
namespace {

// A node to visit, with the level and range that its parent gives.
struct Visit {
  NodeNo node;
  int level = -1;  // -1: any (the root)
  Key lower;
  std::optional<Key> upper;
};

// What is wrong with a node, given what its parent says; empty when nothing is.
std::string wrong_with(ConstNodePage page, const Visit& visit) {
  if (visit.level >= 0 && page.level() != visit.level) {
    return fmt::format("is of level {} where {} is due", page.level(), visit.level);
  }
  if (page.count() == 0) return page.node() == Tree::kRoot ? "" : "is empty";
  if (page.key(0) < visit.lower) return "holds a key below its range";
  if (visit.upper && page.key(page.count() - 1) >= *visit.upper) {
    return "holds a key above its range";
  }
  return "";
}

}  // namespace

void TreeCheck::count_node() {
  if (listener_.progress) listener_.progress(++done_, total_);
}

// Visits every node; returns whether all could be read.
bool TreeCheck::visit_tree(std::unordered_set<NodeNo>& visited) {
  bool complete = true;
  std::vector<Visit> stack{{Tree::kRoot, -1, Key{}, std::nullopt}};
  while (!stack.empty()) {
    const Visit visit = stack.back();
    stack.pop_back();
    if (!visited.insert(visit.node).second) {
      problem(fmt::format("node {} is in the tree more than once", visit.node.value));
      continue;
    }
    count_node();
    const auto pin = loader_.load(visit.node);
    if (!pin) {
      complete = false;
      problem(fmt::format("node {} cannot be read: {}", visit.node.value, describe(pin.error())));
      continue;
    }
    ReaderLock lock(tree_.mu);
    const ConstNodePage page = (**pin).page();
    if (const std::string wrong = wrong_with(page, visit); !wrong.empty()) {
      problem(fmt::format("node {} {}", visit.node.value, wrong));
    }
    if (page.is_leaf()) continue;
    for (unsigned i = page.count(); i-- > 0;) {
      const auto upper = i + 1 < page.count() ? std::optional(page.key(i + 1)) : visit.upper;
      const Key lower = i > 0 ? page.key(i) : visit.lower;
      stack.push_back({page.child(i), page.level() - 1, lower, upper});
    }
  }
  return complete;
}

void TreeCheck::run() {
  const std::vector<LiveImage> live = log_.all_live();
  total_ = 2 * live.size();
  ImageScan(device_, tree_.fs_tag)
      .run(live, [&](const LiveImage& image, const Result<>& sound, ConstNodePage) {
        count_node();
        if (sound) return;
        const auto& [node, place] = image;
        problem(fmt::format("node {} of transaction {} at band {} block {}: {}", node.value,
                             place.seq.value, place.address.band.value, place.address.rba,
                             describe(sound.error())));
      });
  std::unordered_set<NodeNo> visited;
  const bool complete = visit_tree(visited);
  for (const LiveImage& node : live) {
    ReaderLock lock(tree_.mu);
    const bool reachable = visited.contains(node.first) || tree_.cache.is_freed(node.first);
    if (complete && !reachable) {
      problem(fmt::format("node {} is in the map but not in the tree", node.first.value));
    }
  }
}

}  // namespace lazyfs::meta
