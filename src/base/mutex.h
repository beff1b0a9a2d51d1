// Locks with annotations for Clang's thread-safety analysis. libstdc++'s locks have no annotations,
// so -Wthread-safety checks only code that uses these.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/before_wait.h"

#if defined(__clang__)
#define LAZYFS_TSA(x) __attribute__((x))
#else
#define LAZYFS_TSA(x)
#endif
#define GUARDED_BY(m) LAZYFS_TSA(guarded_by(m))
#define REQUIRES(...) LAZYFS_TSA(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) LAZYFS_TSA(requires_shared_capability(__VA_ARGS__))
#define EXCLUDES(...) LAZYFS_TSA(locks_excluded(__VA_ARGS__))

namespace lazyfs {

class LAZYFS_TSA(capability("mutex")) Mutex {
 public:
  void lock() LAZYFS_TSA(acquire_capability()) { mu_.lock(); }
  void unlock() LAZYFS_TSA(release_capability()) { mu_.unlock(); }
  bool try_lock() LAZYFS_TSA(try_acquire_capability(true)) { return mu_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

class LAZYFS_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mu) LAZYFS_TSA(acquire_capability(mu)) : mu_(mu) { mu_.lock(); }
  ~MutexLock() LAZYFS_TSA(release_capability()) { mu_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mu_;
};

// A condition variable for Mutex. wait() releases the mutex while it waits. Each wait calls
// about_to_wait() first (before_wait.h), because the thread that will notify may wait for a disk.
class CondVar {
 public:
  void wait(Mutex& mu) REQUIRES(mu) {
    about_to_wait();
    std::unique_lock lock(mu.mu_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  // Returns false when `timeout` has passed.
  template <class Duration>
  bool wait_for(Mutex& mu, Duration timeout) REQUIRES(mu) {
    about_to_wait();
    std::unique_lock lock(mu.mu_, std::adopt_lock);
    const bool woken = cv_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void notify_one() { cv_.notify_one(); }
  void notify_all() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

// A reader-writer lock for critical sections of microseconds. A thread that finds the lock taken
// spins for a few microseconds before it sleeps. A waiting writer blocks new readers. (glibc's
// rwlock sleeps at once and prefers readers: while four threads read a cached metadata tree, a
// writer got the lock 4 times a second.) Not recursive.
//
// Invariants:
//   M1  state_ is the number of readers, plus kWriter while a writer holds the lock or waits for
//       the readers to release it, plus kSleepers
//   M2  no reader takes the lock while kWriter is set
//   M3  kSleepers is set before a thread sleeps. A thread whose change others may wait for clears
//       it and wakes all sleepers, so a thread that has not run since is not woken twice
class LAZYFS_TSA(capability("shared_mutex")) SharedMutex {
 public:
  void lock() LAZYFS_TSA(acquire_capability()) {
    take(kWriter);
    wait_while([](std::uint32_t state) { return (state & ~kSleepers) != kWriter; });
  }
  void unlock() LAZYFS_TSA(release_capability()) { wake(state_.fetch_and(~(kWriter | kSleepers))); }
  void lock_shared() LAZYFS_TSA(acquire_shared_capability()) { take(1); }
  void unlock_shared() LAZYFS_TSA(release_shared_capability()) {
    const std::uint32_t before = state_.fetch_sub(1);
    if ((before & ~kSleepers) == kWriter + 1) wake(state_.fetch_and(~kSleepers));
  }

 private:
  static constexpr std::uint32_t kWriter = 1u << 31;
  static constexpr std::uint32_t kSleepers = 1u << 30;
  static constexpr int kSpins = 200;  // some 5 us

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  void wake(std::uint32_t state_before) {
    if ((state_before & kSleepers) != 0) state_.notify_all();
  }
  // Sleeps, unless the state is no longer `state`.
  void sleep(std::uint32_t state) {
    const bool is_set = (state & kSleepers) != 0 ||
                        state_.compare_exchange_strong(state, state | kSleepers);
    if (is_set) state_.wait(state | kSleepers);
  }
  // Waits until busy(state) is false, and returns that state.
  template <class Busy>
  std::uint32_t wait_while(Busy busy) {
    for (int spins = 0;;) {
      const std::uint32_t state = state_.load();
      if (!busy(state)) return state;
      if (++spins < kSpins) {
        relax();
      } else {
        sleep(state);
      }
    }
  }
  // Waits until there is no writer, then adds `what`.
  void take(std::uint32_t what) {
    for (;;) {
      std::uint32_t state = wait_while([](std::uint32_t s) { return (s & kWriter) != 0; });
      if (state_.compare_exchange_weak(state, state + what)) return;
    }
  }

  std::atomic<std::uint32_t> state_{0};
};

class LAZYFS_TSA(scoped_lockable) WriterLock {
 public:
  explicit WriterLock(SharedMutex& mu) LAZYFS_TSA(acquire_capability(mu)) : mu_(mu) { mu_.lock(); }
  ~WriterLock() LAZYFS_TSA(release_capability()) { mu_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mu_;
};

class LAZYFS_TSA(scoped_lockable) ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mu) LAZYFS_TSA(acquire_shared_capability(mu)) : mu_(mu) {
    mu_.lock_shared();
  }
  ~ReaderLock() LAZYFS_TSA(release_capability()) { mu_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mu_;
};

}  // namespace lazyfs
