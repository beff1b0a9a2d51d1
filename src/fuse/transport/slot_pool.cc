#include "fuse/transport/slot_pool.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/log.h"
#include "base/types.h"

namespace lazyfs::fuse {
namespace {

constexpr std::size_t kHeadBytes = kBlockBytes;  // of a slot's memory, before the payload

}  // namespace

std::shared_ptr<SlotPool> SlotPool::make(const std::vector<std::uint16_t>& queues,
                                         std::size_t payload_bytes) try {
  return std::shared_ptr<SlotPool>(new SlotPool(queues, payload_bytes));
} catch (const std::bad_alloc&) {
  return nullptr;
}

SlotPool::SlotPool(const std::vector<std::uint16_t>& queues, std::size_t payload_bytes)
    : payload_bytes_(payload_bytes), slots_(queues.size()) {
  CHECK(payload_bytes % kBlockBytes == 0);
  const std::size_t slot_bytes = kHeadBytes + payload_bytes;
  memory_ = LargePages::holding(queues.size() * slot_bytes);
  std::byte* begin = memory_.data();
  for (const std::uint16_t queue : queues) {
    const iovec header{begin, sizeof(UringHeader)}, payload{begin + kHeadBytes, payload_bytes};
    places_.push_back({.parts = {header, payload}, .queue = queue});
    begin += slot_bytes;
  }
}

// P1
SlotPool::~SlotPool() {
  const auto lent = std::ranges::count_if(places_, &Place::is_lent);
  if (lent == 0) return;
  log::debug("fuse: the kernel has not given back {} slots", lent);
  memory_.abandon();
}

// As libfuse expects it: the payload stays where the kernel has put it.
RingSlot& SlotPool::lay_out(std::size_t index) {
  const Place& place = places_[index];
  fuse_in_header header{};
  std::memcpy(&header, place.header().in_out, sizeof header);
  const std::size_t payload = place.header().info.payload_bytes;
  const std::size_t operation =
      std::min<std::size_t>(header.len - sizeof header - payload, sizeof(UringHeader::operation));
  std::byte* const at = place.payload() - operation - sizeof header;
  std::memcpy(at, &header, sizeof header);
  std::memcpy(at + sizeof header, place.header().operation, operation);
  RingSlot& slot = slots_[index];
  slot.request = Request{std::span(at, sizeof header + operation + payload)};
  if (payload == 0) slot.request.reply_space = std::span(place.payload(), payload_bytes_);
  slot.unique.store(header.unique, std::memory_order_release);
  return slot;
}

void SlotPool::fill(RingSlot& slot, std::span<const iovec> reply) {
  const Place& place = places_[index_of(slot)];
  std::byte* to = place.payload();
  std::size_t room = payload_bytes_;
  fuse_out_header header{};
  std::memcpy(&header, reply[0].iov_base, sizeof header);
  for (const iovec& piece : reply.subspan(1)) {
    if (piece.iov_len > room) {
      header.error = -EIO;
      to = place.payload();
      break;
    }
    if (piece.iov_base != to) std::memmove(to, piece.iov_base, piece.iov_len);
    to += piece.iov_len;
    room -= piece.iov_len;
  }
  std::memcpy(place.header().in_out, &header, sizeof header);
  place.header().info.payload_bytes = static_cast<std::uint32_t>(to - place.payload());
}

}  // namespace lazyfs::fuse
