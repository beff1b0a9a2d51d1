// std::mutex and its kin as Clang's thread-safety analysis sees them: libstdc++'s own types carry no
// annotations, so without these wrappers -Wthread-safety checks nothing.
#pragma once

#include <condition_variable>
#include <mutex>
#include <shared_mutex>

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

// A condition variable for Mutex. The caller holds the mutex; waiting releases it meanwhile.
class CondVar {
 public:
  void wait(Mutex& mu) REQUIRES(mu) {
    std::unique_lock lock(mu.mu_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  // Returns false when `timeout` passed.
  template <class Duration>
  bool wait_for(Mutex& mu, Duration timeout) REQUIRES(mu) {
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

class LAZYFS_TSA(capability("shared_mutex")) SharedMutex {
 public:
  void lock() LAZYFS_TSA(acquire_capability()) { mu_.lock(); }
  void unlock() LAZYFS_TSA(release_capability()) { mu_.unlock(); }
  void lock_shared() LAZYFS_TSA(acquire_shared_capability()) { mu_.lock_shared(); }
  void unlock_shared() LAZYFS_TSA(release_shared_capability()) { mu_.unlock_shared(); }

 private:
  std::shared_mutex mu_;
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
