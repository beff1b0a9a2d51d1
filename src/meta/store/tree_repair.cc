#include "meta/store/tree_repair.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/endian.h"
#include "meta/store/image_scan.h"

namespace lazyfs::meta {
namespace {

// Every node contains its number, level and keys. So a lost inner node is rebuilt from the nodes
// that must have been its children: the nodes of the level below whose keys lie in its range. The
// items of a lost leaf are lost, and their range is reported. Items of a sound leaf that has no
// parent are put into the tree one by one.
class TreeRepair {
 public:
  TreeRepair(const RepairTarget& target, const std::function<void(std::string)>& report,
             const Store::LostListener& on_lost)
      : s_(target), report_(report), on_lost_(on_lost) {}

  Result<> run() {
    live_ = s_.log.all_live();
    read_nodes();
    keep_numbers_apart();
    if (s_.root_was_lost) TRY(refill_root());
    visited_.insert(Tree::kRoot);
    ASSIGN_OR_RETURN(const bool keeps, fix(Tree::kRoot, Key{}, std::nullopt));
    if (!keeps) make_root_empty();
    free_damaged();
    if (!lost_.empty()) TRY(on_lost_(s_.store, lost_));  // before a commit
    return insert_the_rest();
  }

 private:
  struct Facts {
    std::uint8_t level = 0;
    std::uint32_t count = 0;
    Key first, last;
  };
  struct Child {
    Key lower;
    NodeNo node;
  };
  using Upper = std::optional<Key>;

  void read_nodes() {
    const auto note = [&](const LiveImage& image, const Result<>& sound, ConstNodePage page) {
      const NodeNo node = image.first;
      if (!sound) {
        damaged_.insert(node);
        return report_(
            fmt::format("node {} cannot be read: {}", node.value, describe(sound.error())));
      }
      Facts facts{page.level(), page.count(), {}, {}};
      if (page.count() > 0) {
        facts.first = page.key(0);
        facts.last = page.key(page.count() - 1);
      }
      facts_[node] = facts;
    };
    ImageScan(s_.device, s_.tree.fs_tag).run(live_, note);
  }

  // Because of a damaged descriptor numbers in use may count as unused.
  void keep_numbers_apart() {
    WriterLock lock(s_.tree.mu);
    for (const auto& [node, place] : live_) {
      s_.tree.cache.raise_next_node(NodeNo{node.value + 1});
    }
  }

  // Nodes of one level without a parent whose keys lie in [lower, upper), in the order of their
  // keys.
  std::vector<Child> parentless(std::uint8_t level, Key lower, Upper upper) const {
    std::map<Key, NodeNo> found;
    for (const auto& [node, facts] : facts_) {
      if (facts.level != level || facts.count == 0 || visited_.contains(node)) continue;
      if (facts.first >= lower && (!upper || facts.first < *upper)) {
        found.emplace(facts.first, node);
      }
    }
    std::vector<Child> children;
    children.reserve(found.size());
    for (const auto& [key, node] : found) children.push_back({key, node});
    return children;
  }

  Result<> refill_root() {
    report_("the root is rebuilt");
    std::uint8_t level = 0;
    bool any = false;
    for (const auto& [node, facts] : facts_) {
      if (node == Tree::kRoot || facts.count == 0) continue;
      level = std::max(level, facts.level);
      any = true;
    }
    facts_.erase(Tree::kRoot);
    if (!any) {
      lost_.push_back({Key{}, std::nullopt});
      return ok();
    }
    if (level >= kMaxLevel) return fail(Errc::kNodeBad);
    fill(s_.root, static_cast<std::uint8_t>(level + 1), Key{}, std::nullopt);
    return ok();
  }

  // Makes the node an inner node of `level`, with all children that it can have.
  void fill(Node& node, std::uint8_t level, Key lower, Upper upper) {
    lost_an_inner_node_ = true;
    const std::vector<Child> children =
        parentless(static_cast<std::uint8_t>(level - 1), lower, upper);
    WriterLock lock(s_.tree.mu);
    NodePage page = s_.tree.cache.make_dirty(node);
    page.format(node.number, level, s_.tree.fs_tag);
    for (const Child& child : children) {
      if (page.free_bytes() < kInnerItemRoom) break;  // the items of the others are put in later
      std::byte number[8];
      store_le<std::uint64_t>(number, child.node.value);
      page.insert(page.count(), page.count() == 0 ? lower : child.lower, number);
    }
    // The range of a lost child is not known: the gap between two children may hold one.
    if (damaged_.size() > 1) {
      for (std::size_t i = 0; i < children.size(); ++i) {
        const Upper next = i + 1 < children.size() ? Upper(children[i + 1].lower) : upper;
        lost_.push_back({facts_.at(children[i].node).last, next});
      }
      if (!children.empty()) lost_.push_back({lower, children.front().lower});
    }
  }

  bool is_sound_child(NodeNo node, std::uint8_t level, Key lower, Upper upper) const {
    const auto found = facts_.find(node);
    if (found == facts_.end() || visited_.contains(node)) return false;
    const Facts& facts = found->second;
    return facts.level == level && facts.count > 0 && facts.first >= lower &&
           (!upper || facts.last < *upper);
  }

  // Repairs the subtree of a node whose own image is sound. False: the node is empty.
  Result<bool> fix(NodeNo number, Key lower, Upper upper) {
    std::vector<Child> children;
    std::uint8_t level = 0;
    ASSIGN_OR_RETURN(const NodePin pin, s_.loader.load_twice(number));
    {
      ReaderLock lock(s_.tree.mu);
      const ConstNodePage page = (*pin).page();
      level = page.level();
      if (page.is_leaf()) return page.count() > 0 || number == Tree::kRoot;
      for (unsigned i = 0; i < page.count(); ++i) children.push_back({page.key(i), page.child(i)});
    }
    std::vector<bool> keep(children.size());
    for (std::size_t i = 0; i < children.size(); ++i) {
      const Key from = i == 0 ? lower : children[i].lower;
      const Upper to = i + 1 < children.size() ? Upper(children[i + 1].lower) : upper;
      ASSIGN_OR_RETURN(const bool kept,
                       fix_child(children[i].node, static_cast<std::uint8_t>(level - 1), from, to));
      keep[i] = kept;
    }
    return set_children(*pin, keep, lower);
  }

  Result<bool> fix_child(NodeNo child, std::uint8_t level, Key lower, Upper upper) {
    if (is_sound_child(child, level, lower, upper)) {
      visited_.insert(child);
      return level == 0 ? Result<bool>(true) : fix(child, lower, upper);
    }
    named_.insert(child);
    // The items of a sound node in the wrong place are put into the tree later.
    if (level == 0 || facts_.contains(child)) {
      report_(fmt::format(
          "node {} is lost, with the items from (owner {:#x}, kind {}, offset {}) on", child.value,
          lower.owner, lower.kind, lower.offset));
      lost_.push_back({lower, upper});
      return false;
    }
    if (parentless(static_cast<std::uint8_t>(level - 1), lower, upper).empty()) {
      lost_an_inner_node_ = true;
      lost_.push_back({lower, upper});
      return false;
    }
    report_(fmt::format("node {} is rebuilt from its children", child.value));
    const NodePin pin = blank(child);
    fill(*pin, level, lower, upper);
    visited_.insert(child);
    facts_[child] = {level, 1, lower, lower};
    return fix(child, lower, upper);
  }

  // A node in memory whose image cannot be read or used.
  NodePin blank(NodeNo number) {
    WriterLock lock(s_.tree.mu);
    if (Node* node = s_.tree.cache.find(number)) {
      node->pins.fetch_add(1, std::memory_order_relaxed);
      return NodePin(*node);
    }
    std::byte* image = s_.tree.cache.take_image();
    NodePage(image).format(number, 1, s_.tree.fs_tag);
    return NodePin(s_.tree.cache.insert_clean(number, image));
  }

  // Removes the children that are not kept. The first one that is kept begins where the node's
  // range does (T3).
  bool set_children(Node& node, const std::vector<bool>& keep, Key lower) {
    WriterLock lock(s_.tree.mu);
    const bool all = std::ranges::find(keep, false) == keep.end();
    if (all && node.page().key(0) == lower) return true;
    NodePage page = s_.tree.cache.make_dirty(node);
    for (std::size_t i = keep.size(); i-- > 0;) {
      if (!keep[i]) page.erase(static_cast<unsigned>(i));
    }
    if (page.count() == 0) return false;
    if (page.key(0) != lower) {
      std::byte number[8];
      store_le<std::uint64_t>(number, page.child(0).value);
      page.erase(0);
      page.insert(0, lower, number);
    }
    return true;
  }

  void make_root_empty() {
    WriterLock lock(s_.tree.mu);
    NodePage page = s_.tree.cache.make_dirty(s_.root);
    page.format(Tree::kRoot, 0, s_.tree.fs_tag);
  }

  // Frees the damaged nodes that are not in the tree any more, in the transaction that takes them
  // out of it. If no node named one of them, and no node is lost that may have, nothing says which
  // items it held.
  void free_damaged() {
    bool is_any_unnamed = false;
    for (const auto& [node, place] : live_) {
      if (!damaged_.contains(node) || visited_.contains(node)) continue;
      is_any_unnamed |= !named_.contains(node);
      free(node);
    }
    if (!is_any_unnamed || lost_an_inner_node_) return;
    report_("no node says which items are lost with a damaged node");
    lost_.push_back({Key{}, std::nullopt});
  }

  // Puts the items of the leaves without a parent into the tree, and frees every node without a
  // parent.
  Result<> insert_the_rest() {
    for (const auto& [node, place] : live_) {
      const auto facts = facts_.find(node);
      if (facts == facts_.end() || visited_.contains(node)) continue;
      if (facts->second.level == 0) TRY(insert_items(node));
      free(node);
    }
    return ok();
  }

  void free(NodeNo node) {
    report_(fmt::format("node {} is in the map but not in the tree: freed", node.value));
    WriterLock lock(s_.tree.mu);
    if (Node* cached = s_.tree.cache.find(node)) {
      s_.tree.cache.free_node(*cached);
    } else {
      s_.tree.cache.free_unread(node);
    }
  }

  // The leaf was sound. If it cannot be read now, the repair fails, and keeps the leaf: a later one
  // may read it. Commits of what is put in may move it.
  Result<> insert_items(NodeNo node) {
    AlignedBuffer image(kBlockBytes);
    {
      ASSIGN_OR_RETURN(const NodePin pin, s_.loader.load_twice(node));
      ReaderLock lock(s_.tree.mu);
      std::copy_n((*pin).image, kBlockBytes, image.data());
    }
    const ConstNodePage page(image.data());
    for (unsigned i = 0; i < page.count(); ++i) {
      ASSIGN_OR_RETURN(const auto there, s_.store.get(page.key(i)));
      if (there) continue;
      Batch batch;
      batch.put(page.key(i), page.value(i));
      TRY(s_.store.apply(batch, Reserve::kDelete));
    }
    return ok();
  }

  const RepairTarget& s_;
  const std::function<void(std::string)>& report_;
  const Store::LostListener& on_lost_;
  std::vector<LiveImage> live_;
  std::unordered_map<NodeNo, Facts> facts_;  // of nodes whose image is sound
  std::unordered_set<NodeNo> damaged_;
  std::unordered_set<NodeNo> visited_;  // that have a parent
  std::unordered_set<NodeNo> named_;    // by a parent, but lost or in the wrong place
  bool lost_an_inner_node_ = false;     // whose children lie in ranges of lost_
  std::vector<KeyRange> lost_;
};

}  // namespace

Result<> repair_tree(const RepairTarget& target, const std::function<void(std::string)>& report,
                     const Store::LostListener& on_lost) {
  return TreeRepair(target, report, on_lost).run();
}

}  // namespace lazyfs::meta
