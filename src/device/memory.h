// A banded device in memory, for tests and benchmarks. A band takes memory from its first write on.
// The device keeps the contract of device.h, except that its contents do not survive it.
#pragma once

#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "device/device.h"

namespace lazyfs::device {

// Thread-safe. mu_ is a leaf lock, held while memory is copied.
class MemoryDevice final : public Device {
 public:
  explicit MemoryDevice(Geometry geometry, Capabilities capabilities = {.set_write_pointer = true});
  // `bands` shingled bands of `band_blocks` blocks each.
  static std::unique_ptr<MemoryDevice> uniform(std::uint32_t bands, std::uint32_t band_blocks);

  const Geometry& geometry() const override { return geometry_; }
  Capabilities capabilities() const override { return capabilities_; }
  std::string name() const override { return "memory"; }
  using Device::append;
  Result<> read(BandAddress from, std::span<std::byte> to) override EXCLUDES(mu_);
  Result<> append(BandAddress to, std::span<const Piece> pieces) override EXCLUDES(mu_);
  Result<std::uint32_t> write_pointer(BandId band) override EXCLUDES(mu_);
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override EXCLUDES(mu_);
  Result<> reset(BandId band) override EXCLUDES(mu_);
  Result<BandReport> report(BandId band) override EXCLUDES(mu_);
  Result<> flush() override { return ok(); }

  // Functions for tests, which change the medium directly. REQUIRES: the address is within the
  // geometry.
  //
  // Write and read bytes anywhere, on both sides of the write pointer.
  void poke(BandAddress at, std::span<const std::byte> bytes) EXCLUDES(mu_);
  void peek(BandAddress at, std::span<std::byte> bytes) EXCLUDES(mu_);
  // Inverts one bit of a block.
  void flip(BandAddress at, std::size_t bit) EXCLUDES(mu_);
  // Sets the write pointer of a shingled band to any position from 0 to its end.
  void place_write_pointer(BandId band, std::uint32_t rba) EXCLUDES(mu_);
  // Makes a band kReadOnly or kOffline for ever, as a disk does with a worn-out band.
  void retire(BandId band, BandCondition condition) EXCLUDES(mu_);

 private:
  struct Band {
    AlignedBuffer bytes;  // allocated at the first write
    std::uint32_t write_pointer = 0;
    bool is_read_only = false;
    bool is_offline = false;
  };

  bool is_conventional(BandId band) const {
    return geometry_.band_kinds[band.value] == BandKind::kConventional;
  }
  // Return the band if it is readable or writable. Errors: see device.h.
  Result<Band*> readable_locked(BandId band) REQUIRES(mu_);
  Result<Band*> writable_locked(BandId band) REQUIRES(mu_);
  std::byte* place_locked(BandAddress at) REQUIRES(mu_);

  const Geometry geometry_;
  const Capabilities capabilities_;
  Mutex mu_;
  std::vector<Band> bands_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::device
