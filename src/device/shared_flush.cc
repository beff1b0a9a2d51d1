#include "device/shared_flush.h"

#include <new>

namespace lazyfs::device {
namespace {

// Returns what `work` returns, or `without_memory`.
template <class R>
R run_or(const std::function<R()>& work, R without_memory) try {
  return work();
} catch (const std::bad_alloc&) {
  return without_memory;
}

}  // namespace

void SharedFlush::touch() {
  MutexLock lock(mu_);
  is_dirty_ = true;
}

Result<> SharedFlush::run(const std::function<End()>& flush) {
  {
    MutexLock lock(mu_);
    const std::uint64_t needed = begun_ + 1;
    while (is_running_ && done_ < needed) ended_.wait(mu_);
    if (done_ >= needed) return last_failed_ >= needed ? fail(Errc::kDeviceFlush) : ok();
    if (has_lost_writes_) return fail(Errc::kDeviceFlush);
    if (!is_dirty_) return ok();
    is_dirty_ = false;
    is_running_ = true;
    ++begun_;
  }
  const End end = run_or(flush, End::kNotDone);

  MutexLock lock(mu_);
  is_running_ = false;
  done_ = begun_;
  ended_.notify_all();
  if (end == End::kDurable) return ok();
  is_dirty_ = true;
  has_lost_writes_ |= end == End::kWritesLost;
  last_failed_ = done_;
  return fail(Errc::kDeviceFlush);
}

Result<> SharedFlush::run_alone(const std::function<Result<>()>& work) {
  {
    MutexLock lock(mu_);
    while (is_running_) ended_.wait(mu_);
    if (has_lost_writes_) return fail(Errc::kDeviceFlush);
    is_running_ = true;
  }
  const Result<> result = run_or(work, Result<>(fail(Errc::kNoMemory)));

  MutexLock lock(mu_);
  is_running_ = false;
  has_lost_writes_ |= !result && result.error() == Errc::kDeviceFlush;
  ended_.notify_all();
  return result;
}

}  // namespace lazyfs::device
