// The chain of bands to which transactions are appended, and the place where the next transaction
// begins.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/types.h"
#include "device/device.h"
#include "meta/log/checkpoint_format.h"
#include "meta/log/log_layout.h"

namespace lazyfs::meta {

// Invariants:
//   K1  the slots of bands() increase, and are below the next slot
//   K2  the head is the band that the next transaction is appended to; bands past the head exist
//       only after a failure, and nothing was written to them
// Not thread-safe: Log guards it.
class HotChain {
 public:
  // `bands`: oldest first; the last one is the head, and is written from `head_rba` on next.
  HotChain(const device::Device& device, std::span<const ChainBand> bands,
           std::uint32_t head_rba, std::uint64_t next_slot)
      : device_(device),
        bands_(bands.begin(), bands.end()),
        head_rba_(head_rba),
        next_slot_(next_slot) {}

  const std::deque<ChainBand>& bands() const { return bands_; }
  bool is_oldest(std::uint64_t slot) const {
    return bands_.size() >= 2 && bands_.front().slot == slot;
  }
  const ChainBand* find(std::uint64_t slot) const;
  const ChainBand* find(BandId band) const;

  std::uint32_t head_rba() const { return head_rba_; }
  // The slot of the head. 0: no band was begun.
  std::uint64_t head_slot() const;

  // Blocks left in the head and in the bands past it.
  std::uint64_t available() const;
  // The same blocks as rooms for lay_out(), followed by the free bands with the slots that they
  // would get.
  std::vector<Room> rooms(std::span<const BandId> free) const;

  // Appends a band with the next slot.
  void append(BandId band) { bands_.push_back({take_slot(), band}); }
  std::uint64_t next_slot() const { return next_slot_; }
  std::uint64_t take_slot() { return next_slot_++; }
  void raise_next_slot(std::uint64_t least) { next_slot_ = std::max(next_slot_, least); }
  // The bands with lower slots.
  std::vector<BandId> bands_before(std::uint64_t slot) const;
  // Makes the band of that slot the head. The next write begins at `rba`.
  void set_head(std::uint64_t slot, std::uint32_t rba);
  // Moves the head back to `first`, where a planned transaction was to begin. REQUIRES: nothing was
  // written there.
  void take_back(const Room& first);
  // Makes the band take nothing more. `is_void`: no part lies in it.
  void close(const ChainBand& band, bool is_void);
  void drop_oldest() { bands_.pop_front(); }

  // The chain that a checkpoint names: without bands that failed before their first part.
  std::vector<ChainBand> recoverable_bands() const;

 private:
  void make_head(std::size_t index, std::uint32_t rba);
  std::size_t index_of(std::uint64_t slot) const;

  const device::Device& device_;
  std::deque<ChainBand> bands_;
  std::size_t past_head_ = 0;  // bands past the head (K2)
  std::uint32_t head_rba_ = 0;
  std::uint64_t next_slot_ = 0;
  std::set<std::uint64_t> void_slots_;  // of bands that failed before their first part
};

}  // namespace lazyfs::meta
