// Threads that the system may refuse, and what a pool of threads does then. What each thread has to
// report its own stack's overflow.
#pragma once

#include <chrono>
#include <cstddef>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/result.h"

namespace lazyfs {

// While this exists, handlers of signals with SA_ONSTACK run on a stack of their own in the thread
// that made it, so that they run even when the thread's own stack has overflowed. Best effort. A
// stack that a sanitizer has provided stays in use.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  void* memory_ = nullptr;  // null: not in use
  std::size_t size_bytes_ = 0;
};

// Begins a thread that does `work`, which must not throw, and that has a SignalStack. Errors:
// kNoThread when a limit on the number of processes is reached, kNoMemory.
template <class Work>
Result<std::thread> start_thread(Work work) {
  try {
    return std::thread([job = std::move(work)]() mutable {
      const SignalStack signal_stack;
      job();
    });
  } catch (const std::system_error&) {
    return fail(Errc::kNoThread);
  } catch (const std::bad_alloc&) {
    return fail(Errc::kNoMemory);
  }
}

// How many threads a pool may have. When the system has refused a thread, the pool may have no more
// than those that it has, until some time has passed. Not thread-safe.
class ThreadLimit {
 public:
  ThreadLimit(unsigned threads_max, std::chrono::nanoseconds try_again_after,
              Clock& clock = system_clock())
      : threads_max_(threads_max), try_again_after_(try_again_after), clock_(clock) {}

  unsigned now();
  // The system has refused the pool, which has this many threads, a further one. Logs the first
  // time.
  void note_refusal(unsigned threads, Errc why);

 private:
  struct Refusal {
    unsigned threads = 0;
    std::chrono::nanoseconds at{};
  };
  const unsigned threads_max_;
  const std::chrono::nanoseconds try_again_after_;
  Clock& clock_;
  std::optional<Refusal> refusal_;
  bool is_logged_ = false;
};

}  // namespace lazyfs
