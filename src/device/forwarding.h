// A device that forwards every call to another device. Test devices derive from it and override
// single calls.
#pragma once

#include <span>
#include <string>

#include "device/device.h"

namespace lazyfs::device {

// Thread-safe if the inner device is. The inner device must outlive this.
class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(Device& inner) : inner_(inner) {}

  using Device::append;
  const Geometry& geometry() const override { return inner_.geometry(); }
  Capabilities capabilities() const override { return inner_.capabilities(); }
  std::string name() const override { return inner_.name(); }
  Result<> read(BandAddress from, std::span<std::byte> to) override {
    return inner_.read(from, to);
  }
  Result<> append(BandAddress to, std::span<const Piece> pieces) override {
    return inner_.append(to, pieces);
  }
  Result<std::uint32_t> write_pointer(BandId band) override { return inner_.write_pointer(band); }
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override {
    return inner_.set_write_pointer(band, rba);
  }
  Result<> reset(BandId band) override { return inner_.reset(band); }
  void seal(BandId band) override { inner_.seal(band); }
  void forget_copies(BandId band) override { inner_.forget_copies(band); }
  Result<std::uint64_t> discard(BandId band) override { return inner_.discard(band); }
  Result<BandReport> report(BandId band) override { return inner_.report(band); }
  Result<> grow(std::uint64_t bytes) override { return inner_.grow(bytes); }
  Result<> flush() override { return inner_.flush(); }

 private:
  Device& inner_;
};

}  // namespace lazyfs::device
