// The slots of a mount's rings, and their memory.
//
// Invariants:
//   P1  the memory of a slot that is lent is the kernel's, and is not freed: if the kernel has not
//       given every slot back when the last ring ends, all memory is left to the end of the process
// A slot is used by one thread at a time: the owner of the ring that has lent it, or the thread
// that got it from the owner.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/large_pages.h"
#include "fuse/transport/request_ring.h"
#include "fuse/transport/uring_abi.h"

namespace lazyfs::fuse {

class SlotPool {
 public:
  // A slot for each of `queues`, the kernel's queues that their requests come from.
  // `payload_bytes`: at least the kernel's largest request or reply, a multiple of kBlockBytes.
  // Null: no memory.
  static std::shared_ptr<SlotPool> make(const std::vector<std::uint16_t>& queues,
                                        std::size_t payload_bytes);
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  std::span<RingSlot> slots() { return slots_; }
  std::size_t index_of(const RingSlot& slot) const {
    return static_cast<std::size_t>(&slot - slots_.data());
  }
  std::uint16_t queue_of(std::size_t index) const { return places_[index].queue; }
  // The header and the payload, for kUringRegister.
  std::span<const iovec> parts_of(std::size_t index) const { return places_[index].parts; }
  // Of the request in the slot, for kUringCommitAndFetch.
  std::uint64_t commit_id_of(std::size_t index) const {
    return places_[index].header().info.commit_id;
  }

  void set_lent(std::size_t index, bool is_lent) { places_[index].is_lent = is_lent; }
  // Lays out the request that the kernel has put into the slot, in one piece.
  RingSlot& lay_out(std::size_t index);
  // Puts a reply, which begins with a fuse_out_header, into the slot.
  void fill(RingSlot& slot, std::span<const iovec> reply);

 private:
  // A page that begins with the header and ends with room for the head of a request, then the
  // payload. So a request can be laid out without moving its data.
  struct Place {
    iovec parts[2]{};
    std::uint16_t queue = 0;
    bool is_lent = false;

    UringHeader& header() const { return *static_cast<UringHeader*>(parts[0].iov_base); }
    std::byte* payload() const { return static_cast<std::byte*>(parts[1].iov_base); }
  };

  SlotPool(const std::vector<std::uint16_t>& queues, std::size_t payload_bytes);

  const std::size_t payload_bytes_;
  LargePages memory_;  // of all slots: READs fill payloads from the disk
  std::vector<RingSlot> slots_;
  std::vector<Place> places_;  // of each slot
};

}  // namespace lazyfs::fuse
