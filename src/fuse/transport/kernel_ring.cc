#include "fuse/transport/kernel_ring.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "fuse/transport/cpu_list.h"

namespace lazyfs::fuse {
namespace {

constexpr int kFuseFile = 0, kWakeFile = 1;  // numbers of the registered files
// Tags of submissions besides the slots' indexes.
constexpr std::uint64_t kWakeTag = ~std::uint64_t{0}, kDeclineTag = kWakeTag - 1;

// Slots of a mount. Each CPU gets many, so that requests that wait for the disk leave some to
// others.
constexpr std::size_t kSlots = 256;
constexpr std::size_t kSlotsOfCpuMax = 64, kSlotsOfCpuMin = 4;

std::string reason(const std::string& what, int error) {
  return what + ": " + std::strerror(error);
}

}  // namespace

// --- set-up --------------------------------------------------------------------------------------

std::expected<std::unique_ptr<KernelRing>, std::string> KernelRing::make(Plan plan) {
  std::unique_ptr<KernelRing> ring(new KernelRing(std::move(plan)));
  if (auto done = ring->set_up(); !done) return std::unexpected(done.error());
  return ring;
}

std::expected<void, std::string> KernelRing::set_up() {
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) return std::unexpected(reason("no eventfd", errno));
  io_uring_params params{};
  params.flags = IORING_SETUP_SQE128 | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE |
                 IORING_SETUP_R_DISABLED;
  const auto entries = static_cast<unsigned>(std::bit_ceil(plan_.slots + 2));
  params.cq_entries = 2 * static_cast<unsigned>(std::bit_ceil(plan_.pool->slots().size() + 2));
  if (const int error = io_uring_queue_init_params(entries, &ring_, &params); error < 0) {
    return std::unexpected(reason("no io_uring", -error));
  }
  is_set_up_ = true;
  const std::array files{plan_.fuse_fd, wake_fd_};
  if (const int error = io_uring_register_files(&ring_, files.data(), files.size()); error < 0) {
    return std::unexpected(reason("io_uring takes no files", -error));
  }
  return restrict_and_enable();
}

// K3
std::expected<void, std::string> KernelRing::restrict_and_enable() {
  std::array<io_uring_restriction, 4> rules{};
  rules[0].opcode = rules[1].opcode = IORING_RESTRICTION_SQE_OP;
  rules[0].sqe_op = IORING_OP_URING_CMD;
  rules[1].sqe_op = IORING_OP_POLL_ADD;
  rules[2].opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
  rules[3].opcode = IORING_RESTRICTION_SQE_FLAGS_REQUIRED;
  rules[2].sqe_flags = rules[3].sqe_flags = IOSQE_FIXED_FILE;
  // liburing 2.3 declares functions for these two, but does not export them.
  const auto fd = static_cast<unsigned>(ring_.ring_fd);
  int error = io_uring_register(fd, IORING_REGISTER_RESTRICTIONS, rules.data(), rules.size());
  if (error == 0) error = io_uring_register(fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  if (error < 0) return std::unexpected(reason("io_uring cannot be restricted", -error));
  return {};
}

KernelRing::~KernelRing() {
  ended_ = true;
  while (is_set_up_ && take()) {  // completions that came after the owner's end
  }
  if (is_set_up_) io_uring_queue_exit(&ring_);
  if (wake_fd_ >= 0) close(wake_fd_);
}

bool KernelRing::begin() {
  poll_wake_ups();
  for (std::size_t i = plan_.first_slot; i < plan_.first_slot + plan_.slots; ++i) {
    io_uring_sqe* const sqe = prepare(kUringRegister, plan_.pool->queue_of(i), 0, i);
    if (!sqe) return false;
    const std::span<const iovec> parts = plan_.pool->parts_of(i);
    sqe->addr = reinterpret_cast<std::uint64_t>(parts.data());
    sqe->len = static_cast<std::uint32_t>(parts.size());
    plan_.pool->set_lent(i, true);
  }
  enter(0);
  if (ended_) return false;
  unsigned head = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(&ring_, head, cqe) {  // requests may have come: they stay for take()
    if (cqe->user_data != kWakeTag && cqe->res < 0) {
      log::warn("fuse: the kernel refuses a slot: {}", std::strerror(-cqe->res));
      ended_ = true;
      return false;
    }
  }
  return true;
}

// A slot of a queue that does not exist is refused; after a refusal the kernel uses /dev/fuse.
void KernelRing::decline() {
  prepare(kUringRegister, UINT16_MAX, 0, kDeclineTag);
  enter(0);
}

// --- requests ------------------------------------------------------------------------------------

RingSlot* KernelRing::take() {
  io_uring_cqe* cqe = nullptr;
  while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
    const auto [tag, result, flags] = std::tuple(cqe->user_data, cqe->res, cqe->flags);
    io_uring_cqe_seen(&ring_, cqe);
    if (tag == kWakeTag) {
      std::uint64_t wakes = 0;
      if (read(wake_fd_, &wakes, sizeof wakes) < 0 && errno != EAGAIN) ended_ = true;
      if ((flags & IORING_CQE_F_MORE) == 0) poll_wake_ups();
    } else if (tag < plan_.pool->slots().size()) {
      plan_.pool->set_lent(tag, false);
      if (result >= 0) return &plan_.pool->lay_out(tag);
      lose(tag, -result);
    }
  }
  return nullptr;
}

bool KernelRing::has_come() { return io_uring_cq_ready(&ring_) > 0; }

void KernelRing::lose(std::size_t index, int error) {
  const bool has_ended = error == ENOTCONN || error == ECONNABORTED || error == ECANCELED;
  if (!has_ended && !ended_) {
    log::error("fuse: slot {} of queue {} is lost: {}", index,
               plan_.pool->queue_of(index), std::strerror(error));
  }
  // ENOENT: the kernel has aborted the request, and no longer knows it.
  if (error != ENOENT) ended_ = true;
}

void KernelRing::put(RingSlot& slot) {
  const std::size_t index = plan_.pool->index_of(slot);
  if (prepare(kUringCommitAndFetch, plan_.pool->queue_of(index), plan_.pool->commit_id_of(index),
              index)) {
    plan_.pool->set_lent(index, true);
  }
}

// --- the queues of io_uring ----------------------------------------------------------------------

io_uring_sqe* KernelRing::next_sqe() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (!sqe) {
    enter(0);
    sqe = io_uring_get_sqe(&ring_);
  }
  if (sqe) {
    std::memset(sqe, 0, 2 * sizeof *sqe);
  } else {
    log::error("fuse: io_uring takes no more submissions");
    ended_ = true;
  }
  return sqe;
}

io_uring_sqe* KernelRing::prepare(std::uint32_t command, std::uint16_t queue,
                                  std::uint64_t commit_id, std::uint64_t tag) {
  io_uring_sqe* const sqe = next_sqe();
  if (!sqe) return nullptr;
  sqe->opcode = IORING_OP_URING_CMD;
  sqe->flags = IOSQE_FIXED_FILE;
  sqe->fd = kFuseFile;
  sqe->cmd_op = command;
  sqe->user_data = tag;
  const UringCommand details{.commit_id = commit_id, .queue = queue};
  std::memcpy(sqe->cmd, &details, sizeof details);
  return sqe;
}

void KernelRing::poll_wake_ups() {
  io_uring_sqe* const sqe = next_sqe();
  if (!sqe) return;
  io_uring_prep_poll_multishot(sqe, kWakeFile, POLLIN);
  sqe->flags = IOSQE_FIXED_FILE;
  sqe->user_data = kWakeTag;
}

void KernelRing::enter(unsigned wait_for) {
  const int result = io_uring_submit_and_wait(&ring_, wait_for);
  if (result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY) return;
  log::error("fuse: io_uring has failed: {}", std::strerror(-result));
  ended_ = true;
}

void KernelRing::flush() {
  if (io_uring_sq_ready(&ring_) > 0) enter(0);
}

void KernelRing::wait() { enter(1); }

void KernelRing::wake() {
  const std::uint64_t one = 1;
  if (write(wake_fd_, &one, sizeof one) < 0) log::debug("fuse: a wake-up is pending already");
}

// --- a mount's rings -----------------------------------------------------------------------------

std::expected<std::vector<std::unique_ptr<RequestRing>>, std::string> make_kernel_rings(
    int fuse_fd, unsigned count_max, std::size_t payload_bytes) {
  const auto possible = read_cpu_list("/sys/devices/system/cpu/possible");
  const auto online = read_cpu_list("/sys/devices/system/cpu/online");
  if (possible.empty() || online.empty()) {
    return std::unexpected(std::string("the number of CPUs is unknown"));
  }
  const std::size_t depth =
      std::clamp(kSlots / online.size(), kSlotsOfCpuMin, kSlotsOfCpuMax);
  std::vector<KernelRing::Plan> plans(std::clamp<std::size_t>(count_max, 1, online.size()));
  std::vector<std::vector<std::uint16_t>> queues(plans.size());  // of the slots of each
  for (std::size_t queue = 0, next = 0; queue < possible.size(); ++queue) {
    const bool is_online = std::ranges::binary_search(online, possible[queue]);
    const std::size_t ring = is_online ? next++ % plans.size() : 0;
    queues[ring].insert(queues[ring].end(), is_online ? depth : 1,
                        static_cast<std::uint16_t>(queue));
    if (is_online) plans[ring].cpus.push_back(possible[queue]);
  }
  std::vector<std::uint16_t> all;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    plans[i].first_slot = all.size();
    plans[i].slots = queues[i].size();
    all.insert(all.end(), queues[i].begin(), queues[i].end());
  }
  const auto pool = SlotPool::make(all, payload_bytes);
  if (!pool) return std::unexpected(reason("no memory for requests", errno));
  std::vector<std::unique_ptr<RequestRing>> rings;
  for (KernelRing::Plan& plan : plans) {
    plan.fuse_fd = fuse_fd;
    plan.pool = pool;
    auto ring = KernelRing::make(std::move(plan));
    if (!ring) return std::unexpected(ring.error());
    rings.push_back(*std::move(ring));
  }
  return rings;
}

std::expected<void, std::string> kernel_offers_rings(const std::string& parameter_file) {
  std::ifstream file(parameter_file);
  std::string value;
  if (!(file >> value)) return std::unexpected(std::string("this kernel does not know it"));
  if (value == "Y" || value == "1") return {};
  return std::unexpected(parameter_file + " is " + value);
}

}  // namespace lazyfs::fuse
