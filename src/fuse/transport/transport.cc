#include "fuse/transport/transport.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/before_wait.h"
#include "base/check.h"
#include "base/log.h"

namespace lazyfs::fuse {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kWriteHeaderBytes = sizeof(fuse_in_header) + sizeof(fuse_write_in);
constexpr std::size_t kRequestAt = kBlockBytes - kWriteHeaderBytes;  // the payload is then aligned
// What other requests need beside their payload: names, extended attributes (64 KiB), batches.
constexpr std::size_t kOtherBytes = std::size_t{2} * kBlockBytes;
// A request with more carries data: it is parked in the buffer that it came in.
constexpr std::size_t kCopiedBytesMax = kBlockBytes;
constexpr std::size_t kParkedWithData = 64;  // as many buffers

}  // namespace

TransportCounts& TransportCounts::operator+=(const TransportCounts& other) {
  requests += other.requests;
  spins += other.spins;
  spins_won += other.spins_won;
  sleeps += other.sleeps;
  handovers += other.handovers;
  parked += other.parked;
  stuck += other.stuck;
  threads += other.threads;
  resting += other.resting;
  latency_limits += other.latency_limits;
  return *this;
}

Transport::Transport(int fd, TransportOptions options, Handler handler, WaitOf wait_of)
    : fd_(fd),
      options_(options),
      handler_(std::move(handler)),
      wait_of_(std::move(wait_of)),
      cpus_(std::max(1u, std::thread::hardware_concurrency())),
      limit_(options.threads_max, options.try_threads_after),
      watchdog_(options.cpu_latency, options.tick, [this] { return look(); }) {
  ended_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  CHECK(ended_fd_ >= 0);
  CHECK(fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK) == 0);
}

Transport::~Transport() {
  stop();
  join();
  close(ended_fd_);
}

Result<> Transport::start() {
  TRY(watchdog_.start());
  MutexLock lock(mu_);
  active_ = 1;
  for (unsigned i = 0; i < std::min(kThreadsMin, options_.threads_max); ++i) {
    TRY(spawn_locked(i == 0));
  }
  return ok();
}

void Transport::stop() { end(); }

void Transport::end() {
  stopping_.store(true);
  const std::uint64_t one = 1;
  if (write(ended_fd_, &one, sizeof one) < 0) log::debug("fuse: the end was signalled before");
  watchdog_.ask_to_end();
  MutexLock lock(mu_);
  rested_.notify_all();
}

void Transport::join() {
  watchdog_.stop();
  for (std::size_t i = 0;; ++i) {
    Worker* worker = nullptr;
    {
      MutexLock lock(mu_);
      if (i == workers_.size()) return;
      worker = workers_[i].get();
    }
    if (worker->thread.joinable()) worker->thread.join();
  }
}

TransportCounts Transport::counts() const {
  TransportCounts counts{.spins = spins_,
                         .spins_won = spins_won_,
                         .sleeps = sleeps_,
                         .handovers = handovers_,
                         .parked = parkings_,
                         .stuck = stuck_,
                         .latency_limits = watchdog_.latency_limits()};
  MutexLock lock(mu_);
  for (const auto& worker : workers_) counts.requests += (worker->ticket.load() + 1) / 2;
  counts.threads = workers_.size();
  counts.resting = resting_;
  return counts;
}

// --- one worker ----------------------------------------------------------------------------------

void Transport::work(Worker& worker) {
  if (!worker.active) rest(worker);
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (!may_begin(worker)) {
      rest(worker);
      continue;
    }
    if (const ParkedRequests parked = begin_parked(); !parked.empty()) {
      handle_waiting(worker, parked.front().request, parked.front().wait);
      continue;
    }
    Received received = receive(worker);
    if (received.got == Got::kNothing) {
      if (!saw_empty_.load(std::memory_order_relaxed)) saw_empty_ = true;
      if (stop_assisting(worker) && can_begin_parked()) continue;  // T6
      if (!may_lead(worker)) {
        rest(worker);
        continue;
      }
      received = lead(worker);
      leader_ = false;  // T2
    }
    if (received.got == Got::kRequest) handle(worker, received.request);
    if (received.got == Got::kEnd) end();
  }
  handle_all_parked(worker);
}

// T2. look() reads a worker's ticket and retires the worker under mu_. So a worker that is active
// here, after its request, stays so while it leads.
bool Transport::may_lead(Worker& worker) {
  if (!worker.active.load(std::memory_order_relaxed)) return false;
  MutexLock lock(mu_);
  return worker.active && !leader_.exchange(true);
}

Transport::Received Transport::receive(Worker& worker) {
  std::byte* const to = worker.buffer.data() + kRequestAt;
  const ssize_t got = read(fd_, to, worker.buffer.size() - kRequestAt);
  if (got >= static_cast<ssize_t>(sizeof(fuse_in_header))) {
    return {Got::kRequest, Request{std::span(to, static_cast<std::size_t>(got))}};
  }
  if (got >= 0) {
    log::error("fuse: the kernel sent a request of {} bytes", got);
    return {Got::kEnd, {}};
  }
  // ENOENT: the request was interrupted while it was read.
  if (errno == EAGAIN || errno == EINTR || errno == ENOENT) return {};
  if (errno != ENODEV) log::error("fuse: reading from the kernel failed: errno {}", errno);
  return {Got::kEnd, {}};
}

// Waits for the next request. Returns kNothing when stopped, or when another worker took it.
Transport::Received Transport::lead(Worker& worker) {
  const auto begin = SteadyClock::now();
  if (spin_policy_.should_spin(begin)) {
    Received received = spin(worker);
    if (received.got != Got::kNothing) return received;
  }
  if (!sleep()) return {};
  Received received = receive(worker);
  spin_policy_.note_request(SteadyClock::now() - begin < 2 * options_.spin);
  return received;
}

Transport::Received Transport::spin(Worker& worker) {
  if (options_.spin.count() == 0) return {};
  spins_.fetch_add(1, std::memory_order_relaxed);
  Received received;
  const auto ask = [&] {
    if (stopping_.load(std::memory_order_relaxed)) return false;
    received = receive(worker);
    return received.got != Got::kNothing;
  };
  // The thread that makes the next request may need this CPU.
  const auto yield = [] { sched_yield(); };
  if (fuse::spin(spin_policy_, SteadyClock::now() + options_.spin, SteadyClock::now, ask, yield)) {
    spins_won_.fetch_add(1, std::memory_order_relaxed);
  }
  return received;
}

// Returns when a request may have come; false when stopping.
bool Transport::sleep() {
  sleeps_.fetch_add(1, std::memory_order_relaxed);
  pollfd wait[] = {{.fd = fd_, .events = POLLIN}, {.fd = ended_fd_, .events = POLLIN}};
  if (poll(wait, std::size(wait), -1) < 0 && errno != EINTR) {
    log::error("fuse: waiting for the kernel failed: errno {}", errno);
  }
  return !stopping_.load();
}

void Transport::handle(Worker& worker, const Request& request) {
  const Wait wait = wait_of_(request);
  if (wait == Wait::kNever) return run(worker, request);
  if (!park(worker, request, wait)) handle_waiting(worker, request, wait);
}

// REQUIRES: counted in may_wait_.
void Transport::handle_waiting(Worker& worker, const Request& request, Wait wait) {
  if (wait == Wait::kLikely) hand_over(worker);
  run(worker, request);
  MutexLock lock(mu_);
  --may_wait_;
}

// --- parked requests -----------------------------------------------------------------------------

bool Transport::is_below_limit_locked(Wait wait) {
  const unsigned threads = limit_.now();
  const unsigned kept = std::max(1u, threads / (wait == Wait::kSeldom ? 8 : 4));
  return may_wait_ + kept < threads;
}

// Makes a thread if all that exist may be waiting soon.
bool Transport::has_room_locked(Wait wait) {
  if (!is_below_limit_locked(wait)) return false;
  return may_wait_ + 1 < workers_.size() || add_worker_locked(false);
}

// T5. False: the worker shall handle it.
bool Transport::park(Worker& worker, const Request& request, Wait wait) {
  const std::size_t length = request.bytes.size();
  MutexLock lock(mu_);
  const bool has_data = length > kCopiedBytesMax;
  if (has_room_locked(wait) || (has_data && parked_with_data_ == kParkedWithData)) {
    ++may_wait_;
    return false;
  }
  ParkedRequests parked = set_aside(worker, request, wait);
  if (parked.empty()) {
    ++may_wait_;
    return false;
  }
  parked_.splice(parked_.end(), parked);
  if (has_data) ++parked_with_data_;
  has_parked_ = true;
  parkings_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// The request, in memory of its own; an empty list for lack of memory.
Transport::ParkedRequests Transport::set_aside(Worker& worker, const Request& request, Wait wait) {
  try {
    ParkedRequests one(1);
    Parked& parked = one.front();
    parked.wait = wait;
    if (request.bytes.size() > kCopiedBytesMax) {
      parked.buffer = std::exchange(worker.buffer, AlignedBuffer(worker.buffer.size()));
      parked.request = request;
    } else {
      parked.copy.assign(request.bytes.begin(), request.bytes.end());
      parked.request = Request{parked.copy};
    }
    return one;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

Transport::ParkedRequests::iterator Transport::first_with_room_locked() {
  auto parked = parked_.begin();
  while (parked != parked_.end() && !has_room_locked(parked->wait)) ++parked;
  return parked;
}

bool Transport::can_begin_parked() {
  if (!has_parked_) return false;
  MutexLock lock(mu_);
  return first_with_room_locked() != parked_.end();
}

// Takes one parked request, as a list of one, and counts it in may_wait_.
Transport::ParkedRequests Transport::take_parked_locked(ParkedRequests::iterator parked) {
  ParkedRequests taken;
  taken.splice(taken.end(), parked_, parked);
  has_parked_ = !parked_.empty();
  if (parked->buffer) --parked_with_data_;
  ++may_wait_;
  return taken;
}

// Takes the oldest parked request that has room by T5; an empty list if none has.
Transport::ParkedRequests Transport::begin_parked() {
  if (!has_parked_) return {};
  MutexLock lock(mu_);
  const auto first = first_with_room_locked();
  return first == parked_.end() ? ParkedRequests{} : take_parked_locked(first);
}

// Called after stop(): handles parked requests whether they have room or not.
void Transport::handle_all_parked(Worker& worker) {
  for (;;) {
    ParkedRequests parked;
    {
      MutexLock lock(mu_);
      if (parked_.empty()) return;
      parked = take_parked_locked(parked_.begin());
    }
    handle_waiting(worker, parked.front().request, parked.front().wait);
  }
}

void Transport::run(Worker& worker, const Request& request) {
  worker.ticket.fetch_add(1);
  watchdog_.wake();
  {
    const CurrentRequest current(request);
    const BeforeWait before_wait(worker.before_wait);
    handler_(request);
  }
  worker.ticket.fetch_add(1, std::memory_order_release);
}

// --- active workers ------------------------------------------------------------------------------

void Transport::hand_over(Worker& worker) {
  const bool assisted = stop_assisting(worker);
  if (!assisted && !worker.active.load(std::memory_order_relaxed)) return;
  if (assisted && !has_parked_) return;
  MutexLock lock(mu_);
  if (assisted) return begin_left_over_locked();
  handovers_.fetch_add(1, std::memory_order_relaxed);
  retire_locked(worker);
}

// T6
void Transport::begin_left_over_locked() {
  if (first_with_room_locked() != parked_.end()) activate_one_locked();
}

void Transport::retire_locked(Worker& worker) {
  if (!worker.active) return;
  worker.active = false;
  if (--active_ == 0) activate_one_locked();  // T1
}

void Transport::activate_one_locked() {
  if (resting_ > grants_) {
    ++grants_;
    ++active_;
    rested_.notify_one();
  } else if (add_worker_locked(true)) {
    ++active_;
  }  // else the next worker to finish becomes active: see rest()
}

bool Transport::add_worker_locked(bool is_active) {
  const auto count = static_cast<unsigned>(workers_.size());
  if (count >= limit_.now()) return false;
  const auto made = spawn_locked(is_active);
  if (!made) limit_.note_refusal(count, made.error());
  return made.has_value();
}

Result<> Transport::spawn_locked(bool is_active) {
  try {
    auto worker = std::make_unique<Worker>();
    worker->buffer = AlignedBuffer(kBlockBytes + options_.payload_bytes_max + kOtherBytes);
    worker->active = is_active;
    Worker& it = *worker;
    it.before_wait = [this, &it] { hand_over(it); };
    workers_.reserve(workers_.size() + 1);
    ASSIGN_OR_RETURN(it.thread, start_thread([this, &it] { work(it); }));
    workers_.push_back(std::move(worker));
  } catch (const std::bad_alloc&) {
    return fail(Errc::kNoMemory);
  }
  return ok();
}

// T3
bool Transport::may_begin(Worker& worker) {
  if (worker.active.load(std::memory_order_relaxed) || worker.assists) return true;
  unsigned assistants = assistants_;
  while (assistants < cpus_) {
    if (!assistants_.compare_exchange_weak(assistants, assistants + 1)) continue;
    worker.assists = true;
    return true;
  }
  return false;
}

// False: it was no assistant.
bool Transport::stop_assisting(Worker& worker) {
  if (!worker.assists.load(std::memory_order_relaxed)) return false;
  if (!worker.assists.exchange(false)) return false;
  --assistants_;
  return true;
}

// Called by a worker that may begin no request, or found none; returns when it is active.
void Transport::rest(Worker& worker) {
  MutexLock lock(mu_);
  if (worker.active) {
    if (active_ <= 1) return;  // T1: one worker stays
    worker.active = false;
    --active_;
    wanted_ = std::max(1u, active_);
  } else if (active_ < wanted_) {
    worker.active = true;
    ++active_;
    return;
  }
  ++resting_;
  while (grants_ == 0 && !stopping_) rested_.wait(mu_);
  --resting_;
  if (grants_ > 0) --grants_;
  worker.active = true;
}

// --- the watchdog --------------------------------------------------------------------------------

Watchdog::Seen Transport::look() {
  const bool saturated = !saw_empty_.exchange(false);
  Watchdog::Seen seen;
  MutexLock lock(mu_);
  for (std::size_t i = 0; i < workers_.size(); ++i) {  // activation may add workers
    Worker& worker = *workers_[i];
    const std::uint64_t ticket = worker.ticket.load();
    const bool busy = ticket % 2 == 1;
    if (ticket != worker.ticket_seen) {
      seen.moved = true;
      seen.requests += (ticket - worker.ticket_seen + 1) / 2;
    } else if (busy && (worker.active || worker.assists)) {
      stuck_.fetch_add(1, std::memory_order_relaxed);
      retire_locked(worker);
      if (stop_assisting(worker)) begin_left_over_locked();
      seen.moved = true;
    }
    worker.ticket_seen = ticket;
  }
  if (saturated && seen.moved && active_ < cpus_) {
    activate_one_locked();
    wanted_ = std::max(1u, active_);
  }
  return seen;
}

}  // namespace lazyfs::fuse
