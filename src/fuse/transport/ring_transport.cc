#include "fuse/transport/ring_transport.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/before_wait.h"
#include "base/check.h"
#include "base/log.h"

namespace lazyfs::fuse {
namespace {

using SteadyClock = std::chrono::steady_clock;

// A request that takes longer is slow. Requests of its kind then count as slow for a while.
constexpr auto kSlow = std::chrono::milliseconds(1);
constexpr auto kSlowFor = std::chrono::milliseconds(20);

// The kernel copies a longer reply for longer than it takes to wake a thread.
constexpr std::size_t kLongReply = 64 << 10;

thread_local RingSlot* t_slot = nullptr;  // of the request that this thread is handling

std::int64_t nanoseconds(SteadyClock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

// Keeps this thread on some CPUs while it exists. Best effort: elsewhere the thread is slower.
class StayOn {
 public:
  explicit StayOn(std::span<const unsigned> cpus) {
    if (cpus.empty() || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    cpu_set_t wanted;
    CPU_ZERO(&wanted);
    for (const unsigned cpu : cpus) {
      if (cpu < CPU_SETSIZE) CPU_SET(cpu, &wanted);
    }
    has_moved_ = sched_setaffinity(0, sizeof wanted, &wanted) == 0;
  }
  ~StayOn() {
    if (has_moved_) sched_setaffinity(0, sizeof before_, &before_);
  }
  StayOn(const StayOn&) = delete;
  StayOn& operator=(const StayOn&) = delete;

 private:
  cpu_set_t before_{};
  bool has_moved_ = false;
};

// An eighth of the threads is kept for requests that never wait.
unsigned running_max(unsigned threads_max, std::size_t lanes) {
  const auto kept = std::max(static_cast<unsigned>(lanes), threads_max / 8);
  CHECK(kept < threads_max);
  return threads_max - kept;
}

}  // namespace

RingTransport::RingTransport(std::vector<std::unique_ptr<RequestRing>> rings,
                             const TransportOptions& options, RequestHandler handler,
                             WaitOf wait_of, std::function<void()> on_end)
    : options_(options),
      handler_(std::move(handler)),
      wait_of_(std::move(wait_of)),
      on_end_(std::move(on_end)),
      running_max_(running_max(options.threads_max, rings.size())),
      limit_(options.threads_max, options.try_threads_after),
      watchdog_(options.cpu_latency, options.tick, [this] { return look(); }) {
  std::size_t slots = 0;
  for (auto& ring : rings) {
    slots += ring->slots().size();
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->ring = std::move(ring);
    for (const unsigned cpu : lanes_.back()->ring->cpus()) {
      if (cpu >= lane_of_cpu_.size()) lane_of_cpu_.resize(cpu + 1);
      lane_of_cpu_[cpu] = lanes_.back().get();
    }
  }
  unowned_.set_capacity(lanes_.size());
  jobs_.set_capacity(slots);
}

RingTransport::~RingTransport() {
  stop();
  join();
}

bool RingTransport::start() {
  if (make_first_threads() && begin_all()) return true;
  stop();
  join();
  for (auto& lane : lanes_) lane->ring->decline();
  return false;
}

// Makes all threads that are needed before a ring begins: afterwards no ring can decline.
bool RingTransport::make_first_threads() {
  Result<> made = watchdog_.start();
  MutexLock lock(mu_);
  threads_.reserve(options_.threads_max);
  while (made && threads_.size() < lanes_.size() + 1) made = add_thread_locked();
  if (!made) log::warn("fuse: no thread for each ring: {}", describe(made.error()));
  return made.has_value();
}

bool RingTransport::begin_all() {
  MutexLock lock(mu_);
  for (auto& lane : lanes_) unowned_.push_back(lane.get());
  work_came_.notify_all();
  while (lanes_begun_ < lanes_.size() && !has_failed_) began_.wait(mu_);
  return !has_failed_;
}

void RingTransport::stop() { end(); }

void RingTransport::end() {
  stopping_ = true;
  watchdog_.ask_to_end();
  for (auto& lane : lanes_) lane->ring->wake();
  MutexLock lock(mu_);
  work_came_.notify_all();
}

void RingTransport::join() {
  watchdog_.stop();
  for (std::size_t i = 0;; ++i) {
    std::thread thread;
    {
      MutexLock lock(mu_);
      if (i == threads_.size()) break;
      thread = std::move(threads_[i]);
    }
    if (thread.joinable()) thread.join();
  }
  send_late_replies();
}

void RingTransport::send_late_replies() {
  for (auto& lane : lanes_) {
    give_back_answered(*lane);
    lane->ring->flush();
  }
}

TransportCounts RingTransport::counts() const {
  TransportCounts counts{.requests = requests_,
                         .sleeps = sleeps_,
                         .handovers = handovers_,
                         .parked = parked_,
                         .stuck = stuck_,
                         .latency_limits = watchdog_.latency_limits()};
  MutexLock lock(mu_);
  counts.threads = threads_.size();
  return counts;
}

// --- threads -------------------------------------------------------------------------------------

void RingTransport::work() {
  while (const auto task = next_task()) {
    if (task->slot) {
      handle_as_worker(*task);
    } else {
      own(*task->lane);
    }
  }
}

std::optional<RingTransport::Task> RingTransport::next_task() {
  MutexLock lock(mu_);
  for (;;) {
    if (!unowned_.empty() && !stopping_) {
      Lane* const lane = unowned_.front();
      unowned_.pop_front();
      return Task{lane, nullptr};
    }
    if (!jobs_.empty() && running_ < running_max_) {
      const Task job = jobs_.front();
      jobs_.pop_front();
      ++running_;
      return job;
    }
    if (stopping_ && jobs_.empty()) {
      work_came_.notify_all();  // threads that waited for running_ to fall
      return std::nullopt;
    }
    ++idle_;
    work_came_.wait(mu_);
    --idle_;
    if (called_ > 0) --called_;
  }
}

// Makes an idle thread, or a new one, look for work.
void RingTransport::need_thread_locked() {
  if (idle_ > called_) {
    ++called_;
    work_came_.notify_one();
  } else if (threads_.size() < limit_.now()) {
    if (const auto made = add_thread_locked(); !made) {
      limit_.note_refusal(static_cast<unsigned>(threads_.size()), made.error());
    }
  }  // else the next thread that has done its work finds it
}

Result<> RingTransport::add_thread_locked() {
  ASSIGN_OR_RETURN(std::thread thread, start_thread([this] { work(); }));
  threads_.push_back(std::move(thread));
  return ok();
}

void RingTransport::handle_as_worker(const Task& task) {
  Kind& kind = kind_of(task.slot->request);
  handle(kind, *task.slot);
  done_running(kind);
}

void RingTransport::done_running(Kind& kind) {
  --kind.given_away;
  MutexLock lock(mu_);
  --running_;
  --given_away_;
}

void RingTransport::give_away(const Task& task) {
  handovers_.fetch_add(1, std::memory_order_relaxed);
  ++kind_of(task.slot->request).given_away;
  MutexLock lock(mu_);
  jobs_.push_back(task);
  if (given_away_++ >= running_max_) parked_.fetch_add(1, std::memory_order_relaxed);
  if (running_ < running_max_) need_thread_locked();
}

// --- the owner of a lane -------------------------------------------------------------------------

// Returns when the thread no longer owns the lane, or at the end.
void RingTransport::own(Lane& lane) {
  const StayOn place(lane.ring->cpus());
  if (!lane.has_begun && !begin(lane)) return;
  while (!stopping_.load(std::memory_order_relaxed)) {
    give_back_answered(lane);
    if (RingSlot* const slot = lane.ring->take()) {
      if (!serve(lane, *slot)) return;
    } else if (lane.ring->has_ended()) {
      end();
      return on_end_();
    } else {
      wait(lane);
    }
  }
}

bool RingTransport::begin(Lane& lane) {
  lane.has_begun = true;
  const bool done = lane.ring->begin();
  MutexLock lock(mu_);
  ++lanes_begun_;
  if (!done) has_failed_ = true;
  began_.notify_all();
  return done;
}

// Handles one request. False: the lane has another owner now.
bool RingTransport::serve(Lane& lane, RingSlot& slot) {
  requests_.fetch_add(1, std::memory_order_relaxed);
  const Wait wait = wait_of_(slot.request);
  if (where(slot.request, wait) == Where::kWorker) {
    give_away({&lane, &slot});
    return true;
  }
  lane.ring->flush();  // earlier replies do not wait for this request
  return handle_as_owner(lane, slot, wait);
}

RingTransport::Where RingTransport::where(const Request& request, Wait wait) const {
  if (wait == Wait::kLikely) return Where::kWorker;
  const bool has_workers = given_away_.load(std::memory_order_relaxed) < running_max_;
  if (!has_workers) return wait == Wait::kNever ? Where::kHere : Where::kWorker;
  const Kind& kind = kinds_[request.header().opcode % kKinds];
  if (kind.given_away.load(std::memory_order_relaxed) > 0) return Where::kWorker;
  const std::int64_t slow_until = kind.slow_until_ns.load(std::memory_order_relaxed);
  if (slow_until == 0 || nanoseconds(SteadyClock::now()) >= slow_until) return Where::kHere;
  return Where::kWorker;
}

// R2
bool RingTransport::handle_as_owner(Lane& lane, RingSlot& slot, Wait wait) {
  Kind& kind = kind_of(slot.request);
  lane.opcode.store(slot.request.header().opcode, std::memory_order_relaxed);
  std::uint64_t turn = lane.turn.load(std::memory_order_relaxed) + 1;
  lane.turn.store(turn);
  watchdog_.wake();
  const bool is_done = wait == Wait::kOften ? try_handle(kind, slot) : handle(kind, slot);
  if (!is_done) give_away({&lane, &slot});
  if (lane.turn.compare_exchange_strong(turn, turn + 1)) return true;
  done_running(kind);  // take_away() has counted it
  return false;
}

bool RingTransport::try_handle(Kind& kind, RingSlot& slot) {
  const MustNotWait must_not_wait;
  return handle(kind, slot);
}

// False: another thread shall handle it.
bool RingTransport::handle(Kind& kind, RingSlot& slot) {
  const Request request = slot.request;  // the slot may be used again after the reply
  const auto begin = SteadyClock::now();
  bool is_handled = true;
  t_slot = &slot;
  {
    const CurrentRequest current(request);
    handler_(request);
    is_handled = !current_request_is_deferred();
  }
  t_slot = nullptr;
  const auto now = SteadyClock::now();
  if (now - begin > kSlow) kind.slow_until_ns = nanoseconds(now + kSlowFor);
  return is_handled;
}

void RingTransport::give_back_answered(Lane& lane) {
  if (!lane.answered.load(std::memory_order_relaxed)) return;
  RingSlot* slot = lane.answered.exchange(nullptr, std::memory_order_acquire);
  while (slot) {
    RingSlot& it = *std::exchange(slot, slot->next);
    lane.ring->put(it);
  }
}

void RingTransport::wait(Lane& lane) {
  sleeps_.fetch_add(1, std::memory_order_relaxed);
  lane.sleeps.store(true);
  if (!lane.answered.load() && !stopping_.load()) lane.ring->wait();
  lane.sleeps.store(false);
}

// --- replies -------------------------------------------------------------------------------------

bool RingTransport::reply(std::span<const iovec> pieces) {
  fuse_out_header header{};
  if (pieces.empty() || pieces[0].iov_len < sizeof header) return false;
  std::memcpy(&header, pieces[0].iov_base, sizeof header);
  if (header.unique == 0) return false;  // a notification
  Lane* lane = nullptr;
  RingSlot* const slot = slot_of(header.unique, lane);
  if (!slot) return false;
  answer(*lane, *slot, pieces);
  return true;
}

RingSlot* RingTransport::slot_of(std::uint64_t unique, Lane*& lane) {
  for (auto& each : lanes_) {
    const std::span<RingSlot> slots = each->ring->slots();
    lane = each.get();
    if (t_slot && t_slot >= slots.data() && t_slot < slots.data() + slots.size() &&
        t_slot->unique.load(std::memory_order_relaxed) == unique) {
      return t_slot;
    }
  }
  for (auto& each : lanes_) {
    lane = each.get();
    for (RingSlot& slot : each->ring->slots()) {
      if (slot.unique.load(std::memory_order_acquire) == unique) return &slot;
    }
  }
  return nullptr;
}

void RingTransport::answer(Lane& home, RingSlot& slot, std::span<const iovec> pieces) {
  std::size_t bytes = 0;
  for (const iovec& piece : pieces) bytes += piece.iov_len;
  slot.unique.store(0, std::memory_order_relaxed);
  home.ring->fill(slot, pieces);
  Lane& lane = bytes < kLongReply ? home : lane_here(home);
  slot.next = lane.answered.load(std::memory_order_relaxed);
  while (!lane.answered.compare_exchange_weak(slot.next, &slot)) {
  }
  if (lane.sleeps.exchange(false)) lane.ring->wake();
}

// The lane whose owner runs on this thread's CPU; `other` if there is none.
RingTransport::Lane& RingTransport::lane_here(Lane& other) const {
  const int cpu = sched_getcpu();
  if (cpu < 0 || static_cast<std::size_t>(cpu) >= lane_of_cpu_.size()) return other;
  Lane* const lane = lane_of_cpu_[static_cast<std::size_t>(cpu)];
  return lane ? *lane : other;
}

// --- the watchdog --------------------------------------------------------------------------------

Watchdog::Seen RingTransport::look() {
  Watchdog::Seen seen;
  const std::uint64_t requests = requests_.load(std::memory_order_relaxed);
  seen.requests = requests - std::exchange(requests_seen_, requests);
  seen.moved = seen.requests > 0;
  for (auto& lane : lanes_) {
    const std::uint64_t turn = lane->turn.load();
    if (turn % 2 == 1 && turn == lane->turn_seen && take_away(*lane, turn)) seen.moved = true;
    if (turn % 2 == 1) seen.moved = true;
    lane->turn_seen = turn;
  }
  return seen;
}

// R2
bool RingTransport::take_away(Lane& lane, std::uint64_t turn) {
  Kind& kind = kinds_[lane.opcode.load(std::memory_order_relaxed) % kKinds];
  MutexLock lock(mu_);
  ++kind.given_away;
  if (!lane.turn.compare_exchange_strong(turn, turn + 1)) {
    --kind.given_away;
    return false;
  }
  ++running_;  // the former owner takes this back under mu_
  ++given_away_;
  stuck_.fetch_add(1, std::memory_order_relaxed);
  unowned_.push_back(&lane);
  need_thread_locked();
  return true;
}

}  // namespace lazyfs::fuse
