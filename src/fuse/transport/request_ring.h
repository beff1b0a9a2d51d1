// The way of requests through slots: memory that is lent to the kernel, comes back with a request
// in it, and is lent again with the reply. An interface, so that tests can play the kernel.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <span>

#include "fuse/transport/request.h"

namespace lazyfs::fuse {

struct RingSlot {
  Request request;                       // from take() until the reply
  std::atomic<std::uint64_t> unique{0};  // of the request that has no reply yet; 0: none
  RingSlot* next = nullptr;              // in a list of answered slots
};

// One thread at a time is the owner of a ring. A slot is with a ring, or taken.
class RequestRing {
 public:
  virtual ~RequestRing() = default;

  // The owner lends all slots. False: the ring cannot be used, and decline() follows.
  // REQUIRES: the kernel has got the answer to INIT.
  virtual bool begin() = 0;
  // Has the kernel send requests by /dev/fuse, after any ring of the mount could not begin.
  virtual void decline() = 0;

  // The owner takes the next request that has come; null if there is none.
  virtual RingSlot* take() = 0;
  // Whether take() may find a request. For the owner.
  virtual bool has_come() = 0;
  // Gives a taken slot back, with the reply that fill() has put there. The slot may belong to
  // another ring of the same mount: then its next request, and no other, comes to this ring. The
  // reply reaches the kernel at the owner's next flush() or wait(). For the owner.
  virtual void put(RingSlot& slot) = 0;
  virtual void flush() = 0;
  // Flushes, and returns when a request may have come, or after wake(). For the owner.
  virtual void wait() = 0;
  // No request will come: the kernel has ended the connection, or the ring has failed.
  virtual bool has_ended() const = 0;

  // Puts a reply, which begins with a fuse_out_header, into a taken slot of slots(); once for each
  // request. On any thread.
  virtual void fill(RingSlot& slot, std::span<const iovec> reply) = 0;
  // Ends a wait(), or the next one. On any thread.
  virtual void wake() = 0;
  // The slots that begin() lends; constant. On any thread.
  virtual std::span<RingSlot> slots() = 0;
  // The CPUs of the programs whose requests come here; constant. Empty: any. On any thread.
  virtual std::span<const unsigned> cpus() const = 0;
};

}  // namespace lazyfs::fuse
