// One flush of a device for all callers that wait for one.
#pragma once

#include <cstdint>
#include <functional>

#include "base/mutex.h"
#include "base/result.h"

namespace lazyfs::device {

// Invariants:
//   Q1  one flush runs at a time; a caller waits for one that began after its call
//   Q2  a flush writes nothing when nothing has changed since the last successful one
//   Q3  after a flush that has lost writes every flush fails until the device is opened again: the
//       kernel may have dropped writes, and does not report which
// Thread-safe. mu_ is a leaf lock, not held while the flush runs.
class SharedFlush {
 public:
  enum class End : std::uint8_t {
    kDurable,
    kNotDone,     // nothing is durable, and nothing lost: a later flush may succeed
    kWritesLost,  // Q3
  };

  // Notes that there is something to flush. Called after each write, before the write's caller gets
  // its answer.
  void touch() EXCLUDES(mu_);
  // A `flush` for which memory lacks (std::bad_alloc) has not been done. Error: kDeviceFlush.
  Result<> run(const std::function<End()>& flush) EXCLUDES(mu_);
  // Runs `work` while no flush runs. `work` may make writes durable by itself: when it fails with
  // kDeviceFlush, it has lost writes (Q3). Errors: kDeviceFlush after lost writes, kNoMemory
  // (`work` has thrown std::bad_alloc), those of `work`.
  Result<> run_alone(const std::function<Result<>()>& work) EXCLUDES(mu_);

 private:
  Mutex mu_;
  CondVar ended_;
  bool is_dirty_ GUARDED_BY(mu_) = false;
  bool is_running_ GUARDED_BY(mu_) = false;
  bool has_lost_writes_ GUARDED_BY(mu_) = false;
  // Flushes are numbered.
  std::uint64_t begun_ GUARDED_BY(mu_) = 0;
  std::uint64_t done_ GUARDED_BY(mu_) = 0;
  std::uint64_t last_failed_ GUARDED_BY(mu_) = 0;
};

}  // namespace lazyfs::device
