#include "fuse/transport/slot_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/types.h"

namespace lazyfs::fuse {
namespace {

constexpr std::size_t kHeadBytes = kBlockBytes;  // of a slot's memory, before the payload

}  // namespace

std::shared_ptr<SlotPool> SlotPool::make(const std::vector<std::uint16_t>& queues,
                                         std::size_t payload_bytes) {
  std::shared_ptr<SlotPool> pool(new SlotPool(queues.size(), payload_bytes));
  return pool->map(queues) ? pool : nullptr;
}

bool SlotPool::map(const std::vector<std::uint16_t>& queues) {
  memory_.reserve(queues.size());
  for (const std::uint16_t queue : queues) {
    void* const at = mmap(nullptr, kHeadBytes + payload_bytes_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    auto* const begin = static_cast<std::byte*>(at);
    const iovec header{begin, sizeof(UringHeader)}, payload{begin + kHeadBytes, payload_bytes_};
    memory_.push_back({.begin = begin, .parts = {header, payload}, .queue = queue});
  }
  return true;
}

// P1
SlotPool::~SlotPool() {
  std::size_t lent = 0;
  for (const Memory& memory : memory_) {
    if (memory.is_lent) {
      ++lent;
    } else {
      munmap(memory.begin, kHeadBytes + payload_bytes_);
    }
  }
  if (lent > 0) log::debug("fuse: the kernel has not given back {} slots", lent);
}

// As libfuse expects it: the payload stays where the kernel has put it.
RingSlot& SlotPool::lay_out(std::size_t index) {
  const Memory& memory = memory_[index];
  fuse_in_header header{};
  std::memcpy(&header, memory.header().in_out, sizeof header);
  const std::size_t payload = memory.header().info.payload_bytes;
  const std::size_t operation =
      std::min<std::size_t>(header.len - sizeof header - payload, sizeof(UringHeader::operation));
  std::byte* const at = memory.payload() - operation - sizeof header;
  std::memcpy(at, &header, sizeof header);
  std::memcpy(at + sizeof header, memory.header().operation, operation);
  RingSlot& slot = slots_[index];
  slot.request = Request{std::span(at, sizeof header + operation + payload)};
  if (payload == 0) slot.request.reply_space = std::span(memory.payload(), payload_bytes_);
  slot.unique.store(header.unique, std::memory_order_release);
  return slot;
}

void SlotPool::fill(RingSlot& slot, std::span<const iovec> reply) {
  const Memory& memory = memory_[index_of(slot)];
  std::byte* to = memory.payload();
  std::size_t room = payload_bytes_;
  fuse_out_header header{};
  std::memcpy(&header, reply[0].iov_base, sizeof header);
  for (const iovec& piece : reply.subspan(1)) {
    if (piece.iov_len > room) {
      header.error = -EIO;
      to = memory.payload();
      break;
    }
    if (piece.iov_base != to) std::memmove(to, piece.iov_base, piece.iov_len);
    to += piece.iov_len;
    room -= piece.iov_len;
  }
  std::memcpy(memory.header().in_out, &header, sizeof header);
  memory.header().info.payload_bytes = static_cast<std::uint32_t>(to - memory.payload());
}

}  // namespace lazyfs::fuse
