// Makes a device with smaller blocks, such as an emulated disk of 512-byte blocks, a device with
// blocks of kBlockBytes.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "device/versions.h"

namespace lazyfs::device {

// The inner blocks past the last whole block of a band are never used.
//
// Invariants, for every band:
//   H1  the inner write pointer is at the start of a whole block, unless the device is read-only or
//       an append to the band has failed since its last reset. Then a block that is written in part
//       counts as not written
//
// Thread-safe if the inner device is, as device.h specifies.
class WholeBlocks final : public Device {
 public:
  // Returns `inner` itself if its blocks are not smaller than kBlockBytes. A power cut during an
  // append may have left a band that ends within a block: make() appends zeros up to the end of
  // that block, unless the device is read-only. If that fails, the band is in the same state as
  // after any failed append.
  // Errors: kBandTooSmall if a band is smaller than kBlockBytes; those of report().
  static Result<std::unique_ptr<Device>> make(std::unique_ptr<Device> inner);
  Device& inner() const { return *inner_; }

  WholeBlocks(std::unique_ptr<Device> inner, Geometry geometry);

  const Geometry& geometry() const override { return geometry_.now(); }
  Capabilities capabilities() const override { return inner_->capabilities(); }
  std::string name() const override { return inner_->name(); }
  using Device::append;
  Result<> read(BandAddress from, std::span<std::byte> to) override;
  Result<> append(BandAddress to, std::span<const Piece> pieces) override;
  Result<std::uint32_t> write_pointer(BandId band) override;
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override;
  Result<> reset(BandId band) override { return inner_->reset(band); }
  void seal(BandId band) override { inner_->seal(band); }
  Result<std::uint64_t> discard(BandId band) override;
  Result<BandReport> report(BandId band) override;
  Result<> grow(std::uint64_t bytes) override;
  Result<> flush() override { return inner_->flush(); }

 private:
  Result<> fill_blocks();
  // The inner device's address. UINT32_MAX stands for every RBA that is too large for it.
  BandAddress inside(BandAddress at) const;

  const std::unique_ptr<Device> inner_;
  const std::uint32_t inner_blocks_;  // of one block
  Versions<Geometry> geometry_;       // replaced by grow()
};

}  // namespace lazyfs::device
