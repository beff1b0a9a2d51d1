// jmap: where the newest image of each node lies, and which nodes of each part of the log are still
// live. Source: ext4-lazy (FAST'17, section 3.2), where an entry took 66 bytes; here 56
// (docs/jmap.md).
#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/types.h"
#include "meta/log/log_format.h"

namespace lazyfs::meta {

namespace bi = boost::intrusive;
#ifdef NDEBUG
inline constexpr auto kHookMode = bi::normal_link;
#else
inline constexpr auto kHookMode = bi::safe_link;
#endif

struct JmapTreeTag;
struct JmapPartTag;

// The hooks belong to Jmap's tree and to the list of the part that holds the image; Jmap owns it.
struct JmapEntry
    : bi::set_base_hook<bi::tag<JmapTreeTag>, bi::link_mode<kHookMode>, bi::optimize_size<true>>,
      bi::list_base_hook<bi::tag<JmapPartTag>, bi::link_mode<kHookMode>> {
  NodeNo node;
  std::uint64_t packed_address = 0;  // BandAddress::packed()

  BandAddress address() const { return BandAddress::unpack(packed_address); }
  friend bool operator<(const JmapEntry& a, const JmapEntry& b) { return a.node < b.node; }
};
static_assert(sizeof(JmapEntry) <= 56, "jmap is all in memory: 56 bytes for each node that exists");

struct JmapNodeOf {
  using type = NodeNo;
  const NodeNo& operator()(const JmapEntry& entry) const { return entry.node; }
};

// A run of one transaction in one band, and the nodes whose newest image it holds. Neither copied
// nor moved: entries point into the list.
struct Part {
  using LiveList =
      bi::list<JmapEntry,
               bi::base_hook<bi::list_base_hook<bi::tag<JmapPartTag>, bi::link_mode<kHookMode>>>,
               bi::constant_time_size<false>>;
  explicit Part(PartAddress where, BandId in, std::uint32_t length)
      : address(where), band(in), blocks(length) {}
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  PartAddress address;
  BandId band;
  std::uint32_t blocks;  // descriptors, images and, in the last part, the commit record
  LiveList live;
};

// Invariants:
//   J1  every entry is in the tree, once, and in the live list of exactly one part
//   J2  entries come from slabs of one size; freed ones are used again
// Not thread-safe: Log guards it. Parts given to assign() must outlive their entries.
class Jmap {
 public:
  Jmap() = default;
  ~Jmap();
  Jmap(const Jmap&) = delete;
  Jmap& operator=(const Jmap&) = delete;

  std::optional<BandAddress> find(NodeNo node) const;
  // The node and its neighbours in `part`, in the order of their addresses: from `before` blocks
  // before the node to less than `after` blocks after its beginning. REQUIRES: the map has the
  // node, and `part` holds its newest image.
  std::vector<const JmapEntry*> find_run(NodeNo node, const Part& part, std::uint32_t before,
                                         std::uint32_t after) const;
  // Notes that the node's newest image lies at `address`, within `part`. Returns its former
  // address.
  std::optional<BandAddress> assign(NodeNo node, BandAddress address, Part& part);
  // Forgets the node, if the map has it. Returns its former address.
  std::optional<BandAddress> erase(NodeNo node);

  std::size_t size() const { return size_; }
  std::size_t bytes() const { return slabs_.size() * kSlabEntries * sizeof(JmapEntry); }
  template <class F>
  void for_each(F f) const {
    for (const JmapEntry& entry : tree_) f(entry);
  }

 private:
  using Tree =
      bi::set<JmapEntry,
              bi::base_hook<bi::set_base_hook<bi::tag<JmapTreeTag>, bi::link_mode<kHookMode>,
                                              bi::optimize_size<true>>>,
              bi::key_of_value<JmapNodeOf>, bi::constant_time_size<false>>;
  static constexpr std::size_t kSlabEntries = 1170;  // 64 KiB

  JmapEntry& take();

  Tree tree_;
  std::size_t size_ = 0;
  std::vector<std::unique_ptr<JmapEntry[]>> slabs_;
  Part::LiveList spare_;  // entries that stand for no node
};

}  // namespace lazyfs::meta
