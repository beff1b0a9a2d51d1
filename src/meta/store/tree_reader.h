// Reads the tree, and loads the nodes that are not in memory.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "meta/store/node_loader.h"
#include "meta/store/shared_tree.h"
#include "meta/store/store.h"

namespace lazyfs::meta {

// Loads the nodes that one call misses. They stay pinned until the call ends, so that the call
// makes progress with a cache of any size. Not thread-safe: one object for each call.
class MissLoader {
 public:
  explicit MissLoader(NodeLoader& loader) : loader_(loader) {}
  // Loads the node. A node that the map does not have may just have been freed: then the caller
  // asks the tree again. Errors: kNodeMissing if the tree still names such a node; those of
  // NodeLoader::load(); miss.error.
  Result<> load(const Miss& miss);

 private:
  NodeLoader& loader_;
  NodeNo missing_{};  // the node last found missing from the map
  std::vector<NodePin> pins_;
};

// Thread-safe. The functions are those of Store.
class TreeReader {
 public:
  TreeReader(SharedTree& tree, NodeLoader& loader) : tree_(tree), loader_(loader) {}

  Result<std::optional<Value>> get(Key key);
  Result<std::optional<Item>> last_in(Key first, Key last);
  Result<std::vector<Item>> scan(Key first, Key last, std::size_t max_items);
  std::optional<Key> end_of_part(Key key);

 private:
  template <class T, class Ask>
  Result<T> ask_tree(Ask ask) EXCLUDES(tree_.mu);

  SharedTree& tree_;
  NodeLoader& loader_;
};

}  // namespace lazyfs::meta
