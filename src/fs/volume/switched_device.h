// A device that can be switched off for good. A volume's shutdown does this first.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "device/forwarding.h"

namespace lazyfs::fs {

// Invariants:
//   D1  a call that begins after is_off() is true fails with kShutDown, and never reaches the inner
//       device
//   D2  after switch_off() has returned, no call is in the inner device
// Thread-safe. geometry(), capabilities() and name() work even then.
class SwitchedDevice final : public device::ForwardingDevice {
 public:
  using Device::append;
  using ForwardingDevice::ForwardingDevice;

  // Waits for the calls that are in the inner device. Must not be called by one of them.
  void switch_off();
  bool is_off() const { return state_.load(std::memory_order_relaxed) >= kOff; }

  Result<> read(BandAddress from, std::span<std::byte> to) override;
  Result<> append(BandAddress to, std::span<const device::Piece> pieces) override;
  Result<std::uint32_t> write_pointer(BandId band) override;
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override;
  Result<> reset(BandId band) override;
  Result<std::uint64_t> discard(BandId band) override;
  Result<device::BandReport> report(BandId band) override;
  Result<> grow(std::uint64_t bytes) override;
  Result<> flush() override;

 private:
  class Call;  // one call while it is in the inner device

  static constexpr std::uint32_t kOff = 1u << 31;
  std::atomic<std::uint32_t> state_{0};  // calls in the inner device, plus kOff
};

}  // namespace lazyfs::fs
