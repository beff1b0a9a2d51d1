// Repairing the tree (meta/store/store.h). Every node carries its number, level and keys, so a lost
// inner node is made anew from the nodes that must have been its children: those of the level below
// whose keys lie in its range. A lost leaf is lost; its range is told. What is sound and finds no
// parent is read out and put into the tree item by item.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "meta/store/image_scan.h"
#include "meta/log/restore_superblock.h"
#include "meta/store/store_impl.h"

namespace lazyfs::meta {

// Single-threaded: nobody else uses the store meanwhile.
class TreeRepair {
 public:
  TreeRepair(StoreImpl& store, const std::function<void(std::string)>& told,
             const Store::LostListener& lost)
      : s_(store), told_(told), tell_lost_(lost) {}

  Result<> run() {
    live_ = s_.log_.all_live();
    learn();
    keep_numbers_apart();
    if (s_.root_was_lost_) TRY(refill_root());
    visited_.insert(Tree::kRoot);
    ASSIGN_OR_RETURN(const bool keeps, fix(Tree::kRoot, Key{}, std::nullopt));
    if (!keeps) make_root_empty();
    if (!lost_.empty()) TRY(tell_lost_(s_, lost_));  // before anything can have been committed
    return take_in_the_rest();
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

  void learn() {
    const auto note = [&](const LiveImage& image, const Result<>& sound, ConstNodePage page) {
      const NodeNo node = image.first;
      if (!sound) {
        damaged_.insert(node);
        return told_(
            fmt::format("node {} cannot be read: {}", node.value, describe(sound.error())));
      }
      Facts facts{page.level(), page.count(), {}, {}};
      if (page.count() > 0) {
        facts.first = page.key(0);
        facts.last = page.key(page.count() - 1);
      }
      facts_[node] = facts;
    };
    ImageScan(s_.device_, fs_tag()).run(live_, note);
  }

  // A damaged descriptor may say that the numbers in use are still to be given out.
  void keep_numbers_apart() {
    WriterLock lock(s_.tree_mu_);
    for (const auto& [node, place] : live_) {
      s_.cache_.raise_next_node(NodeNo{node.value + 1});
    }
  }

  std::uint32_t fs_tag() const {
    ReaderLock lock(s_.tree_mu_);
    return s_.cache_.fs_tag();
  }

  // Nodes of one level whose keys lie in [lower, upper), by their keys, that are in no place yet.
  std::vector<Child> homeless(std::uint8_t level, Key lower, Upper upper) const {
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
    told_("the root is made anew");
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
    fill(*s_.root_pin_, static_cast<std::uint8_t>(level + 1), Key{}, std::nullopt);
    return ok();
  }

  // Makes the node one of `level` with all the children that it can have.
  void fill(Node& node, std::uint8_t level, Key lower, Upper upper) {
    const std::vector<Child> children =
        homeless(static_cast<std::uint8_t>(level - 1), lower, upper);
    WriterLock lock(s_.tree_mu_);
    NodePage page = s_.cache_.make_dirty(node);
    page.format(node.number, level, s_.cache_.fs_tag());
    for (const Child& child : children) {
      if (page.free_bytes() < kInnerItemRoom) break;  // the others are taken in item by item
      std::byte number[8];
      store_le<std::uint64_t>(number, child.node.value);
      page.insert(page.count(), page.count() == 0 ? lower : child.lower, number);
    }
    // Where one of several children is lost too, nobody knows its range.
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

  // Makes the subtree of an inner or leaf node right, whose own image is. False: it is empty.
  Result<bool> fix(NodeNo number, Key lower, Upper upper) {
    std::vector<Child> children;
    std::uint8_t level = 0;
    ASSIGN_OR_RETURN(const NodePin pin, s_.loader_.load(number));
    {
      ReaderLock lock(s_.tree_mu_);
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
    // A sound one in the wrong place is taken in item by item later.
    if (level == 0 || facts_.contains(child)) {
      told_(fmt::format("node {} is lost, with the items from (owner {:#x}, kind {}, offset {}) on",
                        child.value, lower.owner, lower.kind, lower.offset));
      lost_.push_back({lower, upper});
      return false;
    }
    if (homeless(static_cast<std::uint8_t>(level - 1), lower, upper).empty()) {
      lost_.push_back({lower, upper});
      return false;
    }
    told_(fmt::format("node {} is made anew from its children", child.value));
    const NodePin pin = blank(child);
    fill(*pin, level, lower, upper);
    visited_.insert(child);
    facts_[child] = {level, 1, lower, lower};
    return fix(child, lower, upper);
  }

  // A node in memory whose image is not, or of no use.
  NodePin blank(NodeNo number) {
    WriterLock lock(s_.tree_mu_);
    if (Node* node = s_.cache_.find(number)) {
      node->pins.fetch_add(1, std::memory_order_relaxed);
      return NodePin(*node);
    }
    std::byte* image = s_.cache_.take_image();
    NodePage(image).format(number, 1, s_.cache_.fs_tag());
    return NodePin(s_.cache_.insert_clean(number, image));
  }

  // Takes out the children that are not kept; the first one begins where the node's range does
  // (T3).
  bool set_children(Node& node, const std::vector<bool>& keep, Key lower) {
    WriterLock lock(s_.tree_mu_);
    const bool all = std::ranges::find(keep, false) == keep.end();
    if (all && node.page().key(0) == lower) return true;
    NodePage page = s_.cache_.make_dirty(node);
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
    WriterLock lock(s_.tree_mu_);
    NodePage page = s_.cache_.make_dirty(*s_.root_pin_);
    page.format(Tree::kRoot, 0, s_.cache_.fs_tag());
  }

  // Frees every node that is in no place; the items of leaves among them first go into the tree.
  Result<> take_in_the_rest() {
    for (const auto& [node, place] : live_) {
      if (visited_.contains(node)) continue;
      const auto facts = facts_.find(node);
      if (facts != facts_.end() && facts->second.level == 0) TRY(take_in(node, place));
      told_(fmt::format("node {} is in the map but not in the tree: freed", node.value));
      WriterLock lock(s_.tree_mu_);
      if (Node* cached = s_.cache_.find(node)) {
        s_.cache_.free_node(*cached);
      } else {
        s_.cache_.free_unread(node);
      }
    }
    return ok();
  }

  Result<> take_in(NodeNo node, const Log::Location& place) {
    AlignedBuffer image(kBlockBytes);
    TRY(s_.device_.read(place.address, image.span()));
    const auto bytes = image.span().first<kBlockBytes>();
    if (!validate_node(bytes, node, place.seq, fs_tag())) return ok();
    const ConstNodePage page(image.data());
    for (unsigned i = 0; i < page.count(); ++i) {
      ASSIGN_OR_RETURN(const auto there, s_.get(page.key(i)));
      if (there) continue;
      Batch batch;
      batch.put(page.key(i), page.value(i));
      TRY(s_.apply(batch, Reserve::kDelete));
    }
    return ok();
  }

  StoreImpl& s_;
  const std::function<void(std::string)>& told_;
  const Store::LostListener& tell_lost_;
  std::vector<LiveImage> live_;
  std::unordered_map<NodeNo, Facts> facts_;  // of nodes whose image is sound
  std::unordered_set<NodeNo> damaged_;
  std::unordered_set<NodeNo> visited_;  // that have their place in the tree
  std::vector<KeyRange> lost_;
};

Result<std::unique_ptr<Store>> Store::repair(device::Device& device, const StoreOptions& options,
                                             const std::function<void(std::string)>& told,
                                             const LostListener& lost) {
  if (options.read_only || device.capabilities().read_only) return fail(Errc::kDeviceReadOnly);
  TRY(restore_superblock(device, told));
  ASSIGN_OR_RETURN(auto store, StoreImpl::open(device, options, true));
  TRY(TreeRepair(*store, told, lost).run());
  return store;
}

}  // namespace lazyfs::meta
