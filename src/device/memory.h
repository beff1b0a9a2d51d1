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

 private:
  struct Band {
    AlignedBuffer bytes;  // allocated at the first write
    std::uint32_t write_pointer = 0;
  };

  bool is_conventional(BandId band) const {
    return geometry_.band_kinds[band.value] == BandKind::kConventional;
  }

  const Geometry geometry_;
  const Capabilities capabilities_;
  Mutex mu_;
  std::vector<Band> bands_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::device
