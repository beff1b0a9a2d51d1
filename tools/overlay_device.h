// A device that keeps all changes in memory, so that a volume on a read-only device can be repaired
// and looked at.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "device/forwarding.h"

namespace lazyfs {

// Blocks that were never written read as those of the inner device, which is only read. Its write
// pointers can be set back to any block, so that the end of a band on a device without write
// pointers can be stated (W1 of device.h). Memory: 4 KiB for each block written. Thread-safe; mu_
// is held over reads of the inner device.
class OverlayDevice final : public device::ForwardingDevice {
 public:
  explicit OverlayDevice(device::Device& inner) : ForwardingDevice(inner), inner_(inner) {}

  using Device::append;
  device::Capabilities capabilities() const override;
  Result<> read(BandAddress from, std::span<std::byte> to) override EXCLUDES(mu_);
  Result<> append(BandAddress to, std::span<const device::Piece> pieces) override EXCLUDES(mu_);
  Result<std::uint32_t> write_pointer(BandId band) override EXCLUDES(mu_);
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override EXCLUDES(mu_);
  Result<> reset(BandId band) override { return set_write_pointer(band, 0); }
  void seal(BandId) override {}
  Result<std::uint64_t> discard(BandId) override { return fail(Errc::kUnsupported); }
  Result<device::BandReport> report(BandId band) override EXCLUDES(mu_);
  Result<> grow(std::uint64_t) override { return fail(Errc::kUnsupported); }
  Result<> flush() override { return ok(); }

 private:
  Result<std::uint32_t> pointer_of(BandId band) REQUIRES(mu_);

  device::Device& inner_;
  Mutex mu_;
  std::unordered_map<std::uint64_t, AlignedBuffer> blocks_ GUARDED_BY(mu_);  // by packed address
  std::unordered_map<std::uint32_t, std::uint32_t> pointers_ GUARDED_BY(mu_);  // that were set
};

}  // namespace lazyfs
