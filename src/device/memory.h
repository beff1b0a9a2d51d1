// A banded device in memory, for tests and for what needs no disk. Bands take memory only as they
// are written. It keeps the whole contract except that nothing survives it.
#pragma once

#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "device/device.h"

namespace lazyfs::device {

// Thread-safe. mu_ is a leaf lock; copying memory is the "I/O" done under it.
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

  // What only the medium itself can do, for tests. All require an address within the geometry.
  //
  // Puts whole or partial blocks anywhere, whatever the write pointer says, and looks at them.
  void poke(BandAddress at, std::span<const std::byte> bytes) EXCLUDES(mu_);
  void peek(BandAddress at, std::span<std::byte> bytes) EXCLUDES(mu_);
  // Turns one bit of a block over.
  void flip(BandAddress at, std::size_t bit) EXCLUDES(mu_);
  // Puts the write pointer of a shingled band anywhere from 0 to its end.
  void place_write_pointer(BandId band, std::uint32_t rba) EXCLUDES(mu_);
  // Makes a band kReadOnly or kOffline for ever, as a disk does with one that wears out.
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
  // The band, if it may be read or changed.
  Result<Band*> readable_locked(BandId band) REQUIRES(mu_);
  Result<Band*> writable_locked(BandId band) REQUIRES(mu_);
  std::byte* place_locked(BandAddress at) REQUIRES(mu_);

  const Geometry geometry_;
  const Capabilities capabilities_;
  Mutex mu_;
  std::vector<Band> bands_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::device
