// Cold bands: bands outside of the hot chain, with images of nodes that have not changed for long.
//
// A cold band is either filled by the cleaner, or adopted: the oldest band of the chain becomes a
// cold one without moving its nodes. A cold index records its contents, part by part: entries in
// descriptors of the hot log. The index of a part is current until a later transaction indexes the
// part again, or until the part holds no live node. The log's tail does not pass a current index.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "device/device.h"
#include "meta/log/live_map.h"
#include "meta/log/transaction.h"

namespace lazyfs::meta {

struct ColdPart {
  ColdPart(PartAddress where, BandId in) : part(where, in, 0) {}
  Part part;
  LogPlace indexed_at;  // the first part of the transaction with the current index
};
struct ColdBand {
  explicit ColdBand(BandId in) : band(in) {}
  BandId band;
  std::map<std::uint32_t, ColdPart> parts;  // by their first blocks
};

// The position of a reader within a cold index.
struct ColdIndexCursor {
  std::uint64_t slot = 0;
  ColdBand* band = nullptr;
  Part* part = nullptr;
};

// Invariants:
//   D1  indexed_in_ lists, for each transaction, the parts whose current index lies in it. Parts
//       whose index is no longer current stay listed until has_current_index() drops them
//   D2  at most one band is being filled
// Not thread-safe: Log guards it. The parts must outlive the entries of `map`.
class ColdBands {
 public:
  ColdBands(LiveMap& map, const device::Device& device) : map_(map), device_(device) {}

  const std::map<std::uint64_t, ColdBand>& bands() const { return bands_; }  // by slot
  bool contains(std::uint64_t slot) const { return bands_.contains(slot); }
  // False after an index was read that no sound log contains.
  bool is_sound() const { return is_sound_; }
  // The part that the block lies in, or nullptr.
  const Part* part_holding(BandAddress address) const;
  std::vector<BandId> dead_bands() const;
  // REQUIRES: the bands hold no live node.
  void forget(std::span<const BandId> bands);

  // ---- the index ----
  // Reads one entry of an index that lies in the transaction whose first part is at `at`; other
  // entries are ignored.
  void read_index(const DescriptorEntry& entry, LogPlace at, ColdIndexCursor& cursor);
  // Whether the index of some part, written at `at`, is current.
  bool has_current_index(LogPlace at);
  // The entries that index `images`, which the transaction `seq` has put into `room`.
  static std::vector<DescriptorEntry> index_of(const ColdRoom& room, Seq seq,
                                               std::span<const LogImage> images);
  static DescriptorEntry index_of(std::uint64_t slot, BandId band) {
    return {slot, band.value, EntryKind::kColdBand};
  }
  static void append_index(const Part& part, std::vector<DescriptorEntry>& to);
  // About `max` entries that repeat the index of parts indexed by transactions that begin in the
  // band of `slot`.
  std::vector<DescriptorEntry> index_again(std::uint64_t slot, std::size_t max) const;
  std::size_t indexes() const { return indexed_in_.size(); }
  bool has_index(LogPlace at) const { return indexed_in_.contains(at); }

  // ---- the band being filled ----
  const std::optional<ColdRoom>& filling() const { return filling_; }
  std::uint64_t room_blocks() const { return filling_ ? filling_->blocks : 0; }
  bool is_filling(std::uint64_t slot) const {
    return filling_ && filling_->slot == slot && filling_->blocks > 0;
  }
  // Makes the band a cold one, and the one being filled.
  void begin(BandId band, std::uint64_t slot);
  // Continues to fill a band that is already cold.
  void resume(const ColdRoom& room) { filling_ = room; }
  // Takes at most `wanted` blocks of the band being filled. REQUIRES: it has room.
  ColdRoom take_room(std::size_t wanted);
  // Called after a failed write. If the band is being filled, it takes nothing more. False: it is
  // not being filled.
  bool stop_filling(BandId band);

  // ---- recovery ----
  // Called after every transaction was read. Drops parts and bands without live nodes. An index
  // that the tail has passed counts as one in the oldest part.
  void finish_recovery();
  // Whether parts of a band overlap.
  bool has_overlaps() const;

 private:
  const ColdPart* part_at(LogPlace place) const;
  bool is_current(LogPlace cold_part, LogPlace at) const;
  void read_band(const DescriptorEntry& entry, ColdIndexCursor& cursor);
  void read_part(const DescriptorEntry& entry, LogPlace at, ColdIndexCursor& cursor);
  void read_node(const DescriptorEntry& entry, const ColdIndexCursor& cursor);

  LiveMap& map_;
  const device::Device& device_;
  std::map<std::uint64_t, ColdBand> bands_;
  std::map<LogPlace, std::vector<LogPlace>> indexed_in_;
  std::optional<ColdRoom> filling_;  // the rest of the band that the cleaner fills
  bool is_sound_ = true;
};

// Whether the part begins past the end of the one before it.
bool is_past(const Part& part, const Part& before);

}  // namespace lazyfs::meta
