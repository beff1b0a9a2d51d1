// A RequestRing by io_uring: FUSE over io_uring of Linux 6.14 and later. docs/transport.md has the
// design.
//
// Invariants:
//   K1  a slot's memory is the kernel's from REGISTER or COMMIT_AND_FETCH until its completion, and
//       is not freed before: what the kernel does not give back is left to the end of the process
//   K2  only the owner touches ring_'s two queues
//   K3  the ring carries out nothing but commands of FUSE and polls, on two files only
#pragma once

#include <liburing.h>

#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "fuse/transport/request_ring.h"
#include "fuse/transport/uring_abi.h"

namespace lazyfs::fuse {

class KernelRing final : public RequestRing {
 public:
  struct Plan {
    int fuse_fd = -1;
    std::vector<std::uint16_t> queues;  // of each slot
    std::vector<unsigned> cpus;         // that are online, of these queues
    std::size_t payload_bytes = 0;      // at least the kernel's largest request or reply
  };
  // Error: why not, as a sentence. Nothing is asked of /dev/fuse before begin().
  static std::expected<std::unique_ptr<KernelRing>, std::string> make(const Plan& plan);
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
  void fill(RingSlot& slot, std::span<const iovec> reply) override;
  void wake() override;
  std::span<RingSlot> slots() override { return slots_; }
  std::span<const unsigned> cpus() const override { return cpus_; }

 private:
  // A slot's memory: a page that begins with the header and ends with room for the head of a
  // request, then the payload. So a request can be laid out in one piece without moving its data.
  struct Memory {
    std::byte* begin = nullptr;
    iovec parts[2]{};  // header and payload, for REGISTER
    std::uint16_t queue = 0;

    UringHeader& header() const { return *reinterpret_cast<UringHeader*>(begin); }
    std::byte* payload() const { return static_cast<std::byte*>(parts[1].iov_base); }
  };

  explicit KernelRing(const Plan& plan);
  std::expected<void, std::string> set_up(const Plan& plan);
  std::expected<void, std::string> restrict_and_enable();
  bool map_slots(const Plan& plan);
  std::size_t index_of(const RingSlot& slot) const;
  io_uring_sqe* next_sqe();  // cleared; null: the ring has failed
  io_uring_sqe* prepare(std::uint32_t command, std::uint16_t queue, std::uint64_t commit_id,
                        std::uint64_t tag);
  void poll_wake_ups();
  void enter(unsigned wait_for);
  void lay_out(RingSlot& slot, const Memory& memory);
  void lose(std::size_t index, int error);

  io_uring ring_{};
  bool is_set_up_ = false;
  int wake_fd_ = -1;
  const std::size_t payload_bytes_;
  const std::vector<unsigned> cpus_;
  std::vector<RingSlot> slots_;
  std::vector<Memory> memory_;  // of each slot
  std::size_t lent_ = 0;        // slots that the kernel has
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
