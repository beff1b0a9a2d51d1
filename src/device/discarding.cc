#include "device/discarding.h"

namespace lazyfs::device {

void DiscardingDevice::set_on(bool is_on) {
  MutexLock lock(mu_);
  is_on_ = is_on;
  if (is_on) return;
  reset_.clear();
  ready_.clear();
}

Result<> DiscardingDevice::reset(BandId band) {
  TRY(ForwardingDevice::reset(band));
  MutexLock lock(mu_);
  if (!is_on_) return ok();
  ready_.erase(band);  // X1
  reset_.insert(band);
  return ok();
}

Result<> DiscardingDevice::flush() {
  std::set<BandId> flushed;
  {
    MutexLock lock(mu_);
    flushed.swap(reset_);
  }
  const Result<> done = ForwardingDevice::flush();
  MutexLock lock(mu_);
  if (!is_on_) return done;
  for (const BandId band : flushed) {
    const bool is_durable = done && !reset_.contains(band);
    (is_durable ? ready_ : reset_).insert(band);
  }
  return done;
}

Result<std::uint64_t> DiscardingDevice::discard(BandId band) {
  const auto bytes = ForwardingDevice::discard(band);
  if (bytes) bytes_discarded_ += *bytes;
  return bytes;
}

bool DiscardingDevice::discard_one() {
  BandId band;
  {
    MutexLock lock(mu_);
    if (ready_.empty()) return false;
    band = *ready_.begin();
    ready_.erase(ready_.begin());
  }
  if (const auto done = discard(band); !done) note_failure(done.error());
  MutexLock lock(mu_);
  return !ready_.empty();
}

void DiscardingDevice::discard_ready() {
  while (discard_one()) continue;  // each turn discards a band
}

void DiscardingDevice::note_failure(Errc error) {
  if (error == Errc::kUnsupported) set_on(false);  // X3
  if (!was_reported_.exchange(true)) report_(error);
}

}  // namespace lazyfs::device
