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
//   X3  `report` is called once at most; after kUnsupported discard_one() discards no band until
//       set_on(true)
// Thread-safe. mu_ is a leaf lock and is not held during calls to the inner device.
class DiscardingDevice final : public ForwardingDevice {
 public:
  // `report` is called by discard_one() with the first error.
  DiscardingDevice(Device& inner, bool is_on, std::function<void(Errc)> report)
      : ForwardingDevice(inner), report_(std::move(report)), is_on_(is_on) {}

  // While off, bands that are reset are not noted. Turning it off forgets the bands that wait.
  void set_on(bool is_on) EXCLUDES(mu_);
  bool is_on() const { return is_on_; }
  // Discards one of the bands whose resets are durable. Returns whether more of them wait. On some
  // disks a discard takes long, and the disk does nothing else meanwhile. In this process only an
  // append to that band waits for it.
  bool discard_one() EXCLUDES(mu_);
  // Discards all bands whose resets are durable.
  void discard_ready() EXCLUDES(mu_);
  // Since construction, including calls of discard().
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
  std::set<BandId> reset_ GUARDED_BY(mu_);  // their resets may not be durable
  std::set<BandId> ready_ GUARDED_BY(mu_);  // their resets are durable
};

}  // namespace lazyfs::device
