#include "fs/volume/throttle.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/test_hook.h"

namespace lazyfs::fs {
namespace {

// Passes of write-back that end, the last with an error, without a page leaving memory, before a
// writer waits no longer.
constexpr std::uint64_t kFailedPasses = 3;
// Then writes may fill memory past the limit by this part of it.
constexpr std::size_t kShareOfLimit = 8;
constexpr auto kLookAgain = std::chrono::milliseconds(20);
// A shorter pause would cost the CPUs more than a small write does.
constexpr std::chrono::nanoseconds kShortestPause = std::chrono::milliseconds(1);

}  // namespace

Throttle::Throttle(gc::Pacer& pacer, const data::PagePool& pages, const meta::Store& store,
                   Clock& clock, TimeHistogram& stalls, std::size_t limit_bytes, bool background,
                   Requests requests)
    : pacer_(pacer),
      pages_(pages),
      store_(store),
      clock_(clock),
      stalls_(stalls),
      limit_pages_(limit_bytes / kBlockBytes),
      background_(background),
      requests_(std::move(requests)) {}

Result<> Throttle::admit(const Inode& file, std::size_t bytes) {
  pacer_.note_request();
  if (!background_) return admit_alone(file);
  const auto delay = pacer_.delay(blocks_for(bytes));
  if (delay.count() > 0) {
    requests_.clean_soon();
    pay(delay);
  }
  return wait_for_memory(file);
}

// T3
void Throttle::pay(std::chrono::nanoseconds delay) {
  const std::chrono::nanoseconds owed(owed_ns_.fetch_add(delay.count()) + delay.count());
  if (owed < kShortestPause) return;
  const auto start = clock_.monotonic();
  pause(std::chrono::nanoseconds(owed_ns_.exchange(0)));
  stalls_.add(clock_.monotonic() - start);
}

// For mounts without threads: the writer itself makes room in memory.
Result<> Throttle::admit_alone(const Inode& file) {
  const auto is_full = [&] { return pages_.used() >= limit_pages_; };
  if (!is_full() || rule_is_disabled(Rule::kBoundDirtyMemory)) return ok();
  const auto written = requests_.write_back();
  return is_full() && !written ? admit_past_limit(file) : ok();
}

// For a write that would wait for ever. The pages of a file whose write-back works leave memory at
// the next pass.
Result<> Throttle::admit_past_limit(const Inode& file) const {
  if (file.write_back_failed) return fail(file.last_write_error.load());
  const std::size_t limit = limit_pages_;
  return pages_.used() <= limit + limit / kShareOfLimit ? ok() : fail(Errc::kMemoryFull);
}

Result<> Throttle::wait_for_memory(const Inode& file) {
  if (is_much_dirty()) requests_.write_back_soon();
  if (pages_.used() < limit_pages_) return ok();
  const auto start = clock_.monotonic();
  const Result<> waited = wait_for_pages(file);
  stalls_.add(clock_.monotonic() - start);
  return waited;
}

Result<> Throttle::wait_for_pages(const Inode& file) {
  std::size_t least = pages_.used();
  std::optional<std::uint64_t> seen;  // passes when `least` was reached
  for (;;) {
    requests_.write_back_soon();
    MutexLock lock(mu_);
    const std::size_t used = pages_.used();
    if (used < limit_pages_ || stopping_ || store_.failed()) return ok();
    if (!seen || used < least) seen = passes_;
    least = std::min(least, used);
    if (!last_pass_ && passes_ - *seen >= kFailedPasses) return admit_past_limit(file);
    freed_.wait_for(mu_, kLookAgain);
  }
}

void Throttle::pages_freed() {
  MutexLock lock(mu_);
  freed_.notify_all();
}

void Throttle::pass_ended(const Result<>& result) {
  MutexLock lock(mu_);
  ++passes_;
  last_pass_ = result;
}

bool Throttle::pause(std::chrono::nanoseconds time) {
  MutexLock lock(mu_);
  if (!stopping_) stopped_.wait_for(mu_, time);
  return !stopping_;
}

void Throttle::stop() {
  MutexLock lock(mu_);
  stopping_ = true;
  freed_.notify_all();
  stopped_.notify_all();
}

}  // namespace lazyfs::fs
