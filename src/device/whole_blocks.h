// A device with smaller blocks, used in blocks of kBlockBytes: emulated disks of 512-byte blocks.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "device/versions.h"

namespace lazyfs::device {

// The geometry in blocks of kBlockBytes, or of the device's own where these are not smaller.
// Error: kMkfsBlockSize if a band is smaller than a block.
Result<Geometry> whole_geometry(const Geometry& inner);

// The device, in whole blocks if its own are smaller. Errors: those of WholeBlocks::make().
Result<std::unique_ptr<Device>> in_whole_blocks(std::unique_ptr<Device> device);

// A band has as many whole blocks as its own blocks make; what is left of it is never used.
//
// Invariants, for every band:
//   H1  the write pointer of the inner device lies at the start of a block, but after a failed
//       append, until the band is reset, or in a read-only device. The part of a block before it
//       does not count
//
// Thread-safe if the inner device is, as device.h specifies.
class WholeBlocks final : public Device {
 public:
  // Where an earlier session has ended within a block (a power cut during an append), writes zeros
  // up to the end of the block, unless the device is read-only.
  // REQUIRES: kBlockBytes is a multiple of the inner device's block size.
  // Errors: kMkfsBlockSize if a band is smaller than a block; those of append().
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
  // The inner device's address; UINT32_MAX stands for all that no band has.
  BandAddress inside(BandAddress at) const;

  const std::unique_ptr<Device> inner_;
  const std::uint32_t inner_blocks_;  // of one block
  Versions<Geometry> geometry_;       // replaced by grow()
};

}  // namespace lazyfs::device
