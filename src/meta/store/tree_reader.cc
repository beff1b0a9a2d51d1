#include "meta/store/tree_reader.h"

#include <algorithm>

namespace lazyfs::meta {

Result<> MissLoader::load(const Miss& miss) {
  if (miss.node.value == 0) return fail(miss.error);
  auto pin = loader_.load(miss.node);
  if (pin) {
    pins_.push_back(std::move(*pin));
    return ok();
  }
  const bool may_be_freed = pin.error() == Errc::kNodeMissing && miss.node != missing_;
  missing_ = miss.node;
  return may_be_freed ? ok() : fail(pin.error());
}

// Asks until all the nodes that the answer needs are in memory.
template <class T, class Ask>
Result<T> TreeReader::ask_tree(Ask ask) {
  MissLoader missing(loader_);
  for (;;) {
    Miss miss;
    {
      ReaderLock lock(tree_.mu);
      auto answer = ask(tree_.tree);
      if (answer) return std::move(*answer);
      miss = answer.error();
    }
    TRY(missing.load(miss));
  }
}

Result<std::optional<Value>> TreeReader::get(Key key) {
  return ask_tree<std::optional<Value>>([&](const Tree& tree) { return tree.get(key); });
}

Result<std::optional<Item>> TreeReader::last_in(Key first, Key last) {
  return ask_tree<std::optional<Item>>(
      [&](const Tree& tree) { return tree.last_in(first, last); });
}

Result<std::vector<Item>> TreeReader::scan(Key first, Key last, std::size_t max_items) {
  std::vector<Item> items;
  items.reserve(std::min<std::size_t>(max_items, 32));
  std::optional<Key> next = first;
  while (next && *next <= last && items.size() < max_items) {
    const Key from = *next;
    ASSIGN_OR_RETURN(next, ask_tree<std::optional<Key>>([&](const Tree& tree) {
                       return tree.scan_leaf(from, last, max_items, items);
                     }));
  }
  return items;
}

std::optional<Key> TreeReader::end_of_part(Key key) {
  MissLoader missing(loader_);
  for (;;) {
    Tree::Part part;
    {
      ReaderLock lock(tree_.mu);
      part = tree_.tree.part_of(key);
    }
    if (!part.missing) return part.end;
    if (!missing.load(Miss{.node = *part.missing})) return part.end;
  }
}

}  // namespace lazyfs::meta
