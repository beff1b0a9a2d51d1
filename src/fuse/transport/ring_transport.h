// Carries requests between rings (RequestRing) and threads that handle them.
//
// A ring's owner takes requests and handles them itself, so that a short request wakes no other
// thread. The owner runs on its ring's CPU. A program that waits for the reply leaves this CPU
// free, so no other CPU has to be woken, and spinning would not pay.
//
// The kernel fills a thread's slots by work on that same thread. A thread that sleeps for the disk
// would hold up the requests in its slots. Therefore:
//   - a request that likely waits goes to another thread, a worker; so does a request of a kind
//     that was slow a moment ago
//   - the owner tries a request that often waits, and may not wait for the disk meanwhile; if it
//     would have to, a worker begins the request again
//   - only an owner gives slots back: a worker passes its answered slot to the owner of the slot's
//     ring. A long reply takes the kernel some time to copy, in the owner's thread; so a worker
//     passes it to the owner on its own CPU, which the worker is about to leave
//   - the watchdog takes the ring away from an owner that has been busy with one request for a tick
//     (1 ms), and another thread becomes its owner
//
// Where the system refuses a thread (ThreadLimit), those that exist serve: at least one for each
// ring, and a worker.
//
// Invariants:
//   R1  a lane's ring is used by its owner only; a lane has one owner, or is in unowned_
//   R2  Lane::turn is odd while the owner handles a request. The thread that changes an odd turn
//       owns the lane: the owner when the request is done, or the watchdog, which passes the lane
//       to another thread
//   R3  running_ = requests that workers handle, or former owners of lanes. A worker begins one
//       only while running_ < running_max_; jobs_ is empty when running_ is 0
//   R4  each taken slot is in jobs_, being handled, waiting for its reply, or in Lane::answered
// Thread-safe. mu_ is a leaf lock; no request is handled under it.
#pragma once

#include <array>
#include <atomic>
#include <boost/circular_buffer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/thread.h"
#include "fuse/transport/request_ring.h"
#include "fuse/transport/transport.h"
#include "fuse/transport/watchdog.h"

namespace lazyfs::fuse {

class RingTransport {
 public:
  // `on_end` is called once or more when a ring has ended, because the connection has or because
  // the ring has failed. REQUIRES: 1 to threads_max - 1 rings.
  RingTransport(std::vector<std::unique_ptr<RequestRing>> rings, const TransportOptions& options,
                RequestHandler handler, WaitOf wait_of, std::function<void()> on_end = [] {});
  ~RingTransport();  // stops and joins
  RingTransport(const RingTransport&) = delete;
  RingTransport& operator=(const RingTransport&) = delete;

  // False: a ring or its thread could not begin. The kernel was asked to use /dev/fuse, and no
  // thread runs.
  bool start();
  // Takes no more requests; those that were taken are handled.
  void stop();
  void join();
  // Sends replies that came after join(). REQUIRES: join() has returned.
  void send_late_replies();

  // Takes the reply to a request of the rings, which begins with a fuse_out_header. False: it is
  // the reply to no such request. On any thread.
  bool reply(std::span<const iovec> pieces);

  // The kernel has ended the connection, a ring has failed, or stop() was called.
  bool has_ended() const { return stopping_; }
  TransportCounts counts() const;

 private:
  struct alignas(64) Lane {
    std::unique_ptr<RequestRing> ring;
    bool has_begun = false;                  // the owner's
    std::atomic<RingSlot*> answered{nullptr};  // to be given back here; a stack
    std::atomic<bool> sleeps{false};         // its owner waits for the ring
    std::atomic<std::uint64_t> turn{0};      // R2
    std::atomic<std::uint32_t> opcode{0};    // of the request that the owner handles
    std::uint64_t turn_seen = 0;             // the watchdog's
  };
  // A slot that was taken from the lane, or without one the lane itself.
  struct Task {
    Lane* lane = nullptr;
    RingSlot* slot = nullptr;
  };
  // What is known of the requests of a kind.
  struct Kind {
    std::atomic<unsigned> given_away{0};         // to workers, or in the hands of former owners
    std::atomic<std::int64_t> slow_until_ns{0};  // by the steady clock
  };

  void work();
  std::optional<Task> next_task() EXCLUDES(mu_);  // nothing: the end
  void handle_as_worker(const Task& task);
  void done_running(Kind& kind);
  void own(Lane& lane);
  bool begin(Lane& lane);
  bool serve(Lane& lane, RingSlot& slot);
  bool handle_as_owner(Lane& lane, RingSlot& slot, Wait wait);
  bool try_handle(Kind& kind, RingSlot& slot);
  bool handle(Kind& kind, RingSlot& slot);
  enum class Where : std::uint8_t { kHere, kWorker };
  Where where(const Request& request, Wait wait) const;
  void give_away(const Task& task);
  void give_back_answered(Lane& lane);
  void wait(Lane& lane);
  bool make_first_threads() EXCLUDES(mu_);
  bool begin_all() EXCLUDES(mu_);
  Result<> add_thread_locked() REQUIRES(mu_);
  void need_thread_locked() REQUIRES(mu_);
  Kind& kind_of(const Request& request) { return kinds_[request.header().opcode % kKinds]; }
  Watchdog::Seen look();
  bool take_away(Lane& lane, std::uint64_t turn);
  void end();
  RingSlot* slot_of(std::uint64_t unique, Lane*& lane);
  void answer(Lane& home, RingSlot& slot, std::span<const iovec> pieces);
  Lane& lane_here(Lane& other) const;

  static constexpr std::size_t kKinds = 64;

  const TransportOptions options_;
  const RequestHandler handler_;
  const WaitOf wait_of_;
  const std::function<void()> on_end_;
  const unsigned running_max_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // constant
  std::vector<Lane*> lane_of_cpu_;            // constant; null: none
  std::array<Kind, kKinds> kinds_{};

  std::atomic<bool> stopping_{false};
  std::atomic<unsigned> given_away_{0};  // running_ and the number of jobs_; changed under mu_
  std::atomic<std::uint64_t> requests_{0}, sleeps_{0};
  std::atomic<std::uint64_t> handovers_{0}, parked_{0}, stuck_{0};
  std::uint64_t requests_seen_ = 0;  // the watchdog's

  mutable Mutex mu_;
  ThreadLimit limit_ GUARDED_BY(mu_);
  CondVar work_came_, began_;
  // Oldest first. Each has room for all lanes, or all slots, from the beginning.
  boost::circular_buffer<Lane*> unowned_ GUARDED_BY(mu_);
  boost::circular_buffer<Task> jobs_ GUARDED_BY(mu_);
  std::vector<std::thread> threads_ GUARDED_BY(mu_);
  unsigned running_ GUARDED_BY(mu_) = 0;  // R3
  unsigned idle_ GUARDED_BY(mu_) = 0;
  unsigned called_ GUARDED_BY(mu_) = 0;  // of the idle threads: have been woken
  std::size_t lanes_begun_ GUARDED_BY(mu_) = 0;
  bool has_failed_ GUARDED_BY(mu_) = false;  // a lane could not begin
  Watchdog watchdog_;
};

}  // namespace lazyfs::fuse
