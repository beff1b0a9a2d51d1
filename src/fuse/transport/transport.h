// Carries requests from the kernel to threads that handle them. Knows the first 40 bytes of a
// request and nothing of filesystems, so that another way to the kernel can take its place.
//
// What a request costs here is mostly the waking of a sleeping CPU. So one thread, the leader,
// spins: it asks again and again for the next request for a short while before it sleeps
// (SpinPolicy), and the thread that got a request handles it itself. Other threads join only when
// one is not enough:
//   - a request that likely waits for the disk is known by `wait_of`; its thread hands over first.
//     The thread of any other hands over when it is about to wait for the disk (before_wait.h)
//   - a watchdog hands over for a thread that has been busy with one request for a tick (1 ms), and
//     adds a thread (up to the number of CPUs) when the queue was never empty for a whole tick
//   - where the system refuses a thread (ThreadLimit), those that exist serve, at least kThreadsMin
//   - a thread that finds the queue empty while another one leads goes to rest; one that has
//     handed over looks first, because to rest and to wake another for the next request costs more
//     than to handle it
//
// Invariants:
//   T1  active_ = workers whose `active` is set. A worker loses it when its request waits for the
//       disk or is found long by the watchdog, and when it rests. active_ == 0 only while each of
//       limit_.now() workers handles a request
//   T2  at most one worker leads, and only an active one
//   T3  a worker begins a request only if it is active, or one of as many assistants as there are
//       CPUs: one that waited, is no longer active, and does not wait for a request. Without this
//       limit many workers would want a CPU at once, and each reply would wait for its turn
//   T4  grants_ <= resting_; a resting worker becomes active only by a grant, counted in active_
//   T5  may_wait_ = workers that handle a request that may wait. An eighth of the threads is kept
//       for requests that never wait, and as much for those that seldom do. Requests beyond that
//       are parked, but at most kParkedWithData that carry data, and while there is memory. Those
//       that begin leave a thread that exists to others
//   T6  no parked request that has room by T5 is left over: a worker that ends a request that may
//       wait takes a parked one, unless all assistants work; an assistant that stops being one
//       looks for one afterwards, or calls another thread
// Thread-safe. mu_ is a leaf lock; no request is read or handled under it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/thread.h"
#include "fuse/transport/cpu_latency.h"
#include "fuse/transport/request.h"
#include "fuse/transport/spin_policy.h"
#include "fuse/transport/watchdog.h"

namespace lazyfs::fuse {

// How requests come from the kernel, and replies get there.
enum class TransportChoice : std::uint8_t {
  kAuto,     // kRead (docs/transport.md says why)
  kRead,     // by read and write on /dev/fuse
  kIoUring,  // by FUSE over io_uring, if the kernel offers it
};

struct TransportOptions {
  TransportChoice choice = TransportChoice::kAuto;
  unsigned threads_max = 32;
  std::chrono::microseconds spin{50};
  std::size_t payload_bytes_max = 1 << 20;  // of a WRITE
  CpuLatencyChoice cpu_latency = CpuLatencyChoice::kOff;
  std::chrono::milliseconds tick{1};  // of the watchdog
  std::chrono::milliseconds try_threads_after{1000};  // when the system has refused one
};

struct TransportCounts {
  std::uint64_t requests = 0;
  std::uint64_t spins = 0;      // times that the leader waited without sleeping
  std::uint64_t spins_won = 0;  // times that a request came meanwhile
  std::uint64_t sleeps = 0;     // times that the leader slept
  std::uint64_t handovers = 0;  // times that a thread handed over before it waited
  std::uint64_t parked = 0;     // requests that may wait, and began after another one had ended
  std::uint64_t stuck = 0;      // requests that the watchdog found to take long
  std::uint64_t threads = 0;
  std::uint64_t resting = 0;  // threads that wait until they are called
  std::uint64_t latency_limits = 0;  // times that the wake-up latency of CPUs was limited

  TransportCounts& operator+=(const TransportCounts& other);
};

class Transport {
 public:
  using Handler = RequestHandler;
  static constexpr unsigned kThreadsMin = 2;  // one may wait (T5)

  // `fd` is an open /dev/fuse, made non-blocking here, and must stay open until join() returns.
  Transport(int fd, TransportOptions options, Handler handler, WaitOf wait_of);
  ~Transport();  // stops and joins
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Errors: those of start_thread(), if not even kThreadsMin workers and the watchdog can be made.
  Result<> start();
  // Takes no more requests; those that are running finish.
  void stop();
  void join();
  // A descriptor that polls readable once the kernel has ended the connection (unmounted) or stop()
  // was called.
  int ended_fd() const { return ended_fd_; }
  TransportCounts counts() const;

 private:
  struct alignas(64) Worker {
    std::thread thread;
    AlignedBuffer buffer;
    std::function<void()> before_wait;     // hands over
    std::atomic<bool> assists{false};      // counted in assistants_
    std::atomic<std::uint64_t> ticket{0};  // odd while a request is handled
    std::atomic<bool> active{true};        // changed under mu_ only
    std::uint64_t ticket_seen = 0;         // by the watchdog
  };
  enum class Got : std::uint8_t { kRequest, kNothing, kEnd };
  struct Received {
    Got got = Got::kNothing;
    Request request;
  };

  void work(Worker& worker);
  bool may_lead(Worker& worker) EXCLUDES(mu_);
  Received receive(Worker& worker);
  Received lead(Worker& worker);
  Received spin(Worker& worker);
  bool sleep();
  void handle(Worker& worker, const Request& request);
  void handle_waiting(Worker& worker, const Request& request, Wait wait);
  void run(Worker& worker, const Request& request);
  // A request that waits, in a buffer of its own: a worker's, if it carries data.
  struct Parked {
    Wait wait;
    std::vector<std::byte> copy;
    AlignedBuffer buffer;
    Request request;
  };
  using ParkedRequests = std::list<Parked>;
  bool park(Worker& worker, const Request& request, Wait wait);
  static ParkedRequests set_aside(Worker& worker, const Request& request, Wait wait);
  bool is_below_limit_locked(Wait wait) REQUIRES(mu_);
  bool has_room_locked(Wait wait) REQUIRES(mu_);
  ParkedRequests::iterator first_with_room_locked() REQUIRES(mu_);
  bool can_begin_parked();
  ParkedRequests take_parked_locked(ParkedRequests::iterator parked) REQUIRES(mu_);
  ParkedRequests begin_parked();
  void begin_left_over_locked() REQUIRES(mu_);
  void handle_all_parked(Worker& worker);
  void hand_over(Worker& worker);
  bool may_begin(Worker& worker);
  bool stop_assisting(Worker& worker);
  void rest(Worker& worker);
  void end();

  void activate_one_locked() REQUIRES(mu_);
  bool add_worker_locked(bool is_active) REQUIRES(mu_);
  Result<> spawn_locked(bool is_active) REQUIRES(mu_);
  void retire_locked(Worker& worker) REQUIRES(mu_);

  Watchdog::Seen look();

  const int fd_;
  const TransportOptions options_;
  const Handler handler_;
  const WaitOf wait_of_;
  const unsigned cpus_;
  int ended_fd_ = -1;

  std::atomic<bool> stopping_{false};
  std::atomic<bool> leader_{false};
  std::atomic<bool> saw_empty_{false};  // a worker found the queue empty during this tick
  std::atomic<unsigned> assistants_{0};  // T3
  std::atomic<std::uint64_t> spins_{0}, spins_won_{0}, sleeps_{0}, handovers_{0}, stuck_{0};
  std::atomic<std::uint64_t> parkings_{0};

  SpinPolicy spin_policy_;  // the leader's: passed on with leader_

  mutable Mutex mu_;
  ThreadLimit limit_ GUARDED_BY(mu_);
  CondVar rested_;
  std::vector<std::unique_ptr<Worker>> workers_ GUARDED_BY(mu_);
  unsigned active_ GUARDED_BY(mu_) = 0;
  unsigned wanted_ GUARDED_BY(mu_) = 1;  // active workers that the load asks for
  unsigned resting_ GUARDED_BY(mu_) = 0;
  unsigned grants_ GUARDED_BY(mu_) = 0;  // T4
  unsigned may_wait_ GUARDED_BY(mu_) = 0;
  ParkedRequests parked_ GUARDED_BY(mu_);  // oldest first
  std::size_t parked_with_data_ GUARDED_BY(mu_) = 0;
  std::atomic<bool> has_parked_{false};  // parked_ is not empty; changed under mu_ only
  Watchdog watchdog_;
};

}  // namespace lazyfs::fuse
