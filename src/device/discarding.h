// A device that discards the bands which its host resets, once the resets are durable.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <set>

#include "base/mutex.h"
#include "device/forwarding.h"

namespace lazyfs::device {

// Discards are advice: their failures change nothing else.
//
// Invariants:
//   X1  discard_one() discards a band only after a successful flush that began after its reset
//   X2  a band that was written again after its reset is not discarded (Device::discard())
//   X3  `report` is called once at most; after kUnsupported no band is discarded any more
// Thread-safe. mu_ is a leaf lock and is not held during calls to the inner device.
class DiscardingDevice final : public ForwardingDevice {
 public:
  // `report` is called by discard_one() with the first error.
  DiscardingDevice(Device& inner, bool is_on, std::function<void(Errc)> report)
      : ForwardingDevice(inner), report_(std::move(report)), is_on_(is_on) {}

  // Off: resets from now on are forgotten, and those that wait too.
  void set_on(bool is_on) EXCLUDES(mu_);
  bool is_on() const { return is_on_; }
  // Discards one of the bands whose resets are durable. Returns whether more of them wait. It may
  // take long on some disks, which do nothing else meanwhile; here nothing waits for it but an
  // append to the band that is being discarded.
  bool discard_one() EXCLUDES(mu_);
  // All of them.
  void discard_ready() EXCLUDES(mu_);
  // Since the construction, also by discard().
  std::uint64_t bytes_discarded() const { return bytes_discarded_; }

  Result<> reset(BandId band) override EXCLUDES(mu_);
  Result<std::uint64_t> discard(BandId band) override;
  Result<> flush() override EXCLUDES(mu_);

 private:
  void note_failure(Errc error);

  const std::function<void(Errc)> report_;
  std::atomic<bool> is_on_, was_reported_{false};
  std::atomic<std::uint64_t> bytes_discarded_{0};
  Mutex mu_;
  std::set<BandId> reset_ GUARDED_BY(mu_);  // the reset may not be durable
  std::set<BandId> ready_ GUARDED_BY(mu_);  // it is
};

}  // namespace lazyfs::device
