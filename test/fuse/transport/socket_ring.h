// A RequestRing whose requests come from a socket.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/check.h"
#include "fuse/transport/request_ring.h"

namespace lazyfs::fuse {

class SocketRing final : public RequestRing {
 public:
  explicit SocketRing(int fd, bool can_begin = true, std::vector<unsigned> cpus = {})
      : fd_(fd),
        can_begin_(can_begin),
        cpus_(std::move(cpus)),
        wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~SocketRing() override { close(wake_fd_); }

  bool begin() override {
    for (std::size_t i = 0; i < kSlots && can_begin_; ++i) free_.push_back(&slots_[i]);
    return can_begin_;
  }
  void decline() override { has_declined_ = true; }
  RingSlot* take() override {
    if (free_.empty()) return nullptr;
    RingSlot& slot = *free_.back();
    AlignedBuffer& buffer = buffer_of(slot);
    std::byte* const to = buffer.data() + kRequestAt;
    const ssize_t got = recv(fd_, to, buffer.size() - kRequestAt, MSG_DONTWAIT);
    if (got <= 0) {
      has_ended_ = got == 0;
      return nullptr;
    }
    free_.pop_back();
    slot.request = Request{std::span(to, static_cast<std::size_t>(got))};
    slot.unique = slot.request.header().unique;
    return &slot;
  }
  bool has_come() override {
    pollfd wait{.fd = fd_, .events = POLLIN};
    return !free_.empty() && poll(&wait, 1, 0) == 1;
  }
  void put(RingSlot& slot) override {
    free_.push_back(&slot);
    ++puts_;
  }
  void flush() override {}
  void wait() override {
    pollfd wait[] = {{.fd = wake_fd_, .events = POLLIN},
                     {.fd = free_.empty() ? -1 : fd_, .events = POLLIN}};
    poll(wait, std::size(wait), -1);
    std::uint64_t wakes = 0;
    if (wait[0].revents != 0) CHECK(read(wake_fd_, &wakes, sizeof wakes) == sizeof wakes);
  }
  bool has_ended() const override { return has_ended_; }
  void fill(RingSlot& slot, std::span<const iovec>) override {
    CHECK(has(slot));
    std::memset(buffer_of(slot).data() + kRequestAt, 0xee, sizeof(fuse_in_header));
  }
  void wake() override {
    const std::uint64_t one = 1;
    CHECK(write(wake_fd_, &one, sizeof one) == sizeof one);
  }
  std::span<RingSlot> slots() override { return slots_; }
  std::span<const unsigned> cpus() const override { return cpus_; }
  bool has_declined() const { return has_declined_; }
  // The ring whose slots may be put here, too.
  void share_with(SocketRing& other) { partner_ = &other; }
  std::size_t puts() const { return puts_; }

 private:
  static constexpr std::size_t kSlots = 64;
  static constexpr std::size_t kRequestAt =  // data of a WRITE begins on a page boundary
      kBlockBytes - sizeof(fuse_in_header) - sizeof(fuse_write_in);

  bool has(const RingSlot& slot) const {
    return &slot >= slots_.data() && &slot < slots_.data() + slots_.size();
  }
  AlignedBuffer& buffer_of(const RingSlot& slot) {
    if (partner_ && partner_->has(slot)) return partner_->buffer_of(slot);
    CHECK(has(slot));
    return buffers_[static_cast<std::size_t>(&slot - slots_.data())];
  }
  static std::vector<AlignedBuffer> make_buffers() {
    std::vector<AlignedBuffer> buffers;
    for (std::size_t i = 0; i < kSlots; ++i) buffers.emplace_back(16 * kBlockBytes);
    return buffers;
  }

  const int fd_;
  const bool can_begin_;
  const std::vector<unsigned> cpus_;
  const int wake_fd_;
  SocketRing* partner_ = nullptr;
  std::atomic<std::size_t> puts_{0};
  bool has_declined_ = false, has_ended_ = false;
  std::vector<RingSlot> slots_ = std::vector<RingSlot>(kSlots);
  std::vector<AlignedBuffer> buffers_ = make_buffers();
  std::vector<RingSlot*> free_;  // slots that the ring has
};

}  // namespace lazyfs::fuse
