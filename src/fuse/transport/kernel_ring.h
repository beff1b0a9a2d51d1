// A RequestRing by io_uring: FUSE over io_uring of Linux 6.14 and later. docs/transport.md has the
// design.
//
// Invariants:
//   K1  only the owner touches ring_'s two queues
//   K2  a slot that the ring has lent comes back to this ring, from any queue of the kernel
//   K3  the ring carries out nothing but commands of FUSE and polls, on two files only
#pragma once

#include <liburing.h>

#include <expected>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuse/transport/request_ring.h"
#include "fuse/transport/slot_pool.h"

namespace lazyfs::fuse {

class KernelRing final : public RequestRing {
 public:
  struct Plan {
    int fuse_fd = -1;
    std::shared_ptr<SlotPool> pool;          // the mount's
    std::size_t first_slot = 0, slots = 0;   // the ring's own, in the pool
    std::vector<unsigned> cpus;              // the online ones, of these slots' queues
  };
  // Error: why not, as a sentence. Nothing is asked of /dev/fuse before begin().
  static std::expected<std::unique_ptr<KernelRing>, std::string> make(Plan plan);
  ~KernelRing() override;  // REQUIRES: no thread uses the ring; the connection has ended
  KernelRing(const KernelRing&) = delete;
  KernelRing& operator=(const KernelRing&) = delete;

  bool begin() override;
  void decline() override;
  RingSlot* take() override;
  bool has_come() override;
  void put(RingSlot& slot) override;
  void flush() override;
  void wait() override;
  bool has_ended() const override { return ended_; }
  void fill(RingSlot& slot, std::span<const iovec> reply) override {
    plan_.pool->fill(slot, reply);
  }
  void wake() override;
  std::span<RingSlot> slots() override {
    return plan_.pool->slots().subspan(plan_.first_slot, plan_.slots);
  }
  std::span<const unsigned> cpus() const override { return plan_.cpus; }

 private:
  explicit KernelRing(Plan plan) : plan_(std::move(plan)) {}
  std::expected<void, std::string> set_up();
  std::expected<void, std::string> restrict_and_enable();
  io_uring_sqe* next_sqe();  // cleared; null: the ring has failed
  io_uring_sqe* prepare(std::uint32_t command, std::uint16_t queue, std::uint64_t commit_id,
                        std::uint64_t tag);
  void poll_wake_ups();
  void enter(unsigned wait_for);
  void lose(std::size_t index, int error);

  const Plan plan_;
  io_uring ring_{};
  bool is_set_up_ = false;
  int wake_fd_ = -1;
  bool ended_ = false;
};

// Rings for a mount: one for each online CPU, or `count_max` that share the CPUs. Error: why none,
// as a sentence.
std::expected<std::vector<std::unique_ptr<RequestRing>>, std::string> make_kernel_rings(
    int fuse_fd, unsigned count_max, std::size_t payload_bytes);

// Whether Linux' FUSE would offer its requests by io_uring to a new mount. Error: why not.
std::expected<void, std::string> kernel_offers_rings(
    const std::string& parameter_file = "/sys/module/fuse/parameters/enable_uring");

}  // namespace lazyfs::fuse
