// The map of the log: where the newest image of each node lies, the parts of the hot log in order,
// and for each band how many newest images it holds and how old they are.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/types.h"
#include "meta/log/jmap.h"

namespace lazyfs::meta {

// Invariants:
//   P1  parts() is ordered by place
//   P2  live_in(b) is the number of entries of the map that lie in band b
//   P3  a part that is referred to by an entry exists: cold parts outlive this object
// Not thread-safe: Log guards it.
class LiveMap {
 public:
  explicit LiveMap(std::uint32_t band_count) : live_in_(band_count), written_at_(band_count) {}

  // REQUIRES: not fewer bands than before.
  void set_band_count(std::uint32_t band_count) {
    live_in_.resize(band_count);
    written_at_.resize(band_count);
  }

  std::optional<BandAddress> find(NodeNo node) const { return jmap_.find(node); }
  // See Jmap::find_run().
  std::vector<const JmapEntry*> find_run(NodeNo node, const Part& part, std::uint32_t before,
                                         std::uint32_t after) const {
    return jmap_.find_run(node, part, before, after);
  }
  void assign(NodeNo node, BandAddress address, Part& part);
  void erase(NodeNo node);

  // Hot parts, oldest first.
  const std::deque<Part>& parts() const { return parts_; }
  Part& add_part(PartAddress where, BandId in, std::uint32_t blocks) {
    return parts_.emplace_back(where, in, blocks);
  }
  // The part that begins there, or nullptr.
  Part* part_at(const PartAddress& address);
  bool has_part_at(LogPlace place) const;
  // The last part that begins at or before the place, or nullptr.
  const Part* last_part_up_to(LogPlace place) const;
  // REQUIRES: the oldest part holds no live node.
  void drop_oldest_part() { parts_.pop_front(); }
  // For a transaction that is planned again: voids its parts in bands after the slot, because its
  // new parts will begin at the same places. The void parts count as the last ones of the band with
  // the slot. The nodes stay in the void parts until they are assigned again.
  void void_parts_after(std::uint64_t slot);

  std::size_t size() const { return jmap_.size(); }
  std::size_t bytes() const { return jmap_.bytes(); }
  std::uint32_t live_in(BandId band) const { return live_in_[band.value]; }
  // Images written to the log since the last one was written to the band.
  std::uint64_t age_of(BandId band) const { return assigned_ - written_at_[band.value]; }
  // Makes the band count as older than all others.
  void make_oldest(BandId band) { written_at_[band.value] = 0; }

 private:
  std::deque<Part> parts_;  // outlives the entries of jmap_
  Jmap jmap_;
  std::vector<std::uint32_t> live_in_;     // by band
  std::uint64_t assigned_ = 0;             // images, since the log was opened
  std::vector<std::uint64_t> written_at_;  // by band: assigned_ at its last image
};

}  // namespace lazyfs::meta
