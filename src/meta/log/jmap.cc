#include "meta/log/jmap.h"

namespace lazyfs::meta {
namespace {

// Needs no reference to the list, because lists keep no size.
void unlink_from_part(JmapEntry& entry) {
  using Traits = Part::LiveList::value_traits;
  Part::LiveList::node_algorithms::unlink(Traits::to_node_ptr(entry));
  if constexpr (kHookMode == bi::safe_link) {
    Part::LiveList::node_algorithms::init(Traits::to_node_ptr(entry));
  }
}

}  // namespace

Jmap::~Jmap() {
  tree_.clear_and_dispose([](JmapEntry* entry) { unlink_from_part(*entry); });
  spare_.clear();
}

std::optional<BandAddress> Jmap::find(NodeNo node) const {
  const auto found = tree_.find(node);
  if (found == tree_.end()) return std::nullopt;
  return found->address();
}

std::vector<const JmapEntry*> Jmap::find_run(NodeNo node, const Part& part, std::uint32_t before,
                                             std::uint32_t after) const {
  const JmapEntry& anchor = *tree_.find(node);
  const std::uint64_t end = anchor.packed_address + after;
  std::vector<const JmapEntry*> run;
  // A transaction's images are assigned in the order of their addresses; where a hostile cold index
  // breaks that order, the run ends.
  auto entry = part.live.iterator_to(anchor);
  while (entry != part.live.begin() &&
         anchor.packed_address - std::prev(entry)->packed_address <= before) {
    --entry;
  }
  for (; entry != part.live.end() && entry->packed_address < end; ++entry) {
    if (!run.empty() && entry->packed_address <= run.back()->packed_address) break;
    run.push_back(&*entry);
  }
  return run;
}

std::optional<BandAddress> Jmap::assign(NodeNo node, BandAddress address, Part& part) {
  Tree::insert_commit_data where;
  const auto [found, is_new] = tree_.insert_check(node, where);
  JmapEntry* entry;
  std::optional<BandAddress> before;
  if (is_new) {
    entry = &take();
    entry->node = node;
    tree_.insert_commit(*entry, where);
    ++size_;
  } else {
    entry = &*found;
    before = entry->address();
    unlink_from_part(*entry);
  }
  entry->packed_address = address.packed();
  part.live.push_back(*entry);
  return before;
}

std::optional<BandAddress> Jmap::erase(NodeNo node) {
  const auto found = tree_.find(node);
  if (found == tree_.end()) return std::nullopt;
  JmapEntry& entry = *found;
  tree_.erase(found);
  unlink_from_part(entry);
  --size_;
  spare_.push_back(entry);
  return entry.address();
}

JmapEntry& Jmap::take() {
  if (spare_.empty()) {
    auto& slab = slabs_.emplace_back(std::make_unique<JmapEntry[]>(kSlabEntries));
    for (std::size_t i = 0; i < kSlabEntries; ++i) spare_.push_back(slab[i]);
  }
  JmapEntry& entry = spare_.front();
  spare_.pop_front();
  return entry;
}

}  // namespace lazyfs::meta
