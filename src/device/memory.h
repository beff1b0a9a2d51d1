// A banded device in memory, for tests and benchmarks. A band takes memory from its first write on.
// The device keeps the contract of device.h, except that its contents do not survive it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "device/device.h"
#include "device/open_bands.h"
#include "device/versions.h"

namespace lazyfs::device {

// Without Capabilities::keeps_write_pointers a reset keeps the bytes, and the device checks that
// the host keeps rule W3: a block that is written twice between two resets of its band aborts the
// program, or is reported to the test. forget_write_pointers() keeps the record of written blocks.
// With Capabilities::max_open_bands it is a model of a zoned disk: at the limit it finishes a
// sealed band before it begins another one, and refuses to begin one if no band is sealed.
// Thread-safe. mu_ is a leaf lock, held while memory is copied.
class MemoryDevice final : public Device {
 public:
  explicit MemoryDevice(Geometry geometry, Capabilities capabilities = {.set_write_pointer = true});
  // `bands` shingled bands of `band_blocks` blocks each.
  static std::unique_ptr<MemoryDevice> uniform(std::uint32_t bands, std::uint32_t band_blocks,
                                               Capabilities capabilities = {.set_write_pointer =
                                                                                true});

  const Geometry& geometry() const override { return geometry_.now(); }
  Capabilities capabilities() const override { return capabilities_; }
  std::string name() const override { return "memory"; }
  using Device::append;
  Result<> read(BandAddress from, std::span<std::byte> to) override EXCLUDES(mu_);
  Result<> append(BandAddress to, std::span<const Piece> pieces) override EXCLUDES(mu_);
  Result<std::uint32_t> write_pointer(BandId band) override EXCLUDES(mu_);
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override EXCLUDES(mu_);
  Result<> reset(BandId band) override EXCLUDES(mu_);
  void seal(BandId band) override EXCLUDES(mu_);
  // The blocks become zeros.
  Result<std::uint64_t> discard(BandId band) override EXCLUDES(mu_);
  Result<BandReport> report(BandId band) override EXCLUDES(mu_);
  Result<> grow(std::uint64_t bytes) override EXCLUDES(mu_);
  Result<> flush() override { return ok(); }

  // Functions for tests, which change the medium directly. REQUIRES: the address is within the
  // geometry.
  //
  // Write and read bytes anywhere, on both sides of the write pointer.
  void poke(BandAddress at, std::span<const std::byte> bytes) EXCLUDES(mu_);
  void peek(BandAddress at, std::span<std::byte> bytes) EXCLUDES(mu_);
  // Inverts one bit of a block.
  void flip(BandAddress at, std::size_t bit) EXCLUDES(mu_);
  // Sets the write pointer of a shingled band to any position from 0 to its end, which is then
  // known.
  void place_write_pointer(BandId band, std::uint32_t rba) EXCLUDES(mu_);
  // Acts as closing and opening the device: forgets seals and, without keeps_write_pointers, the
  // write pointers (W1).
  void forget_write_pointers() EXCLUDES(mu_);
  // The blocks of a band that were written since its last reset, ascending. Only a device without
  // keeps_write_pointers knows them.
  std::vector<std::uint32_t> written_since_reset(BandId band) EXCLUDES(mu_);
  // Writes as append() does, at any place, and without the check of W3.
  void place_blocks(BandAddress at, std::span<const std::byte> bytes) EXCLUDES(mu_);
  // Calls `report`, with mu_ held, for a block that is written twice between two resets of its
  // band. The write is done all the same.
  void on_overwrite(std::function<void(BandAddress)> report) EXCLUDES(mu_);
  // The next grow() adds `count` bands of the last band's size.
  void offer_bands(std::uint32_t count) EXCLUDES(mu_);
  // Makes a band kReadOnly or kOffline for ever, as a disk does with a worn-out band.
  void retire(BandId band, BandCondition condition) EXCLUDES(mu_);
  // How many appends were refused with kTooManyOpenBands: 0 if the host keeps the limit.
  std::uint64_t refused_begins() EXCLUDES(mu_);

 private:
  struct Band {
    AlignedBuffer bytes;  // allocated at the first write
    std::uint32_t write_pointer = 0;
    bool is_end_known = true;
    std::vector<bool> written;  // since the last reset; without keeps_write_pointers only
    bool is_read_only = false;
    bool is_offline = false;
  };

  bool is_conventional(BandId band) const {
    return geometry().band_kinds[band.value] == BandKind::kConventional;
  }
  // Return the band if it is readable or writable. Errors: see device.h.
  Result<Band*> readable_locked(BandId band) REQUIRES(mu_);
  Result<Band*> writable_locked(BandId band) REQUIRES(mu_);
  std::byte* place_locked(BandAddress at) REQUIRES(mu_);
  void place_pointer_locked(BandId band, std::uint32_t rba) REQUIRES(mu_);
  Result<> make_room_to_begin_locked(BandId band) REQUIRES(mu_);
  void mark_written_locked(BandAddress from, std::size_t blocks) REQUIRES(mu_);

  Versions<Geometry> geometry_;  // replaced with mu_ held
  const Capabilities capabilities_;
  Mutex mu_;
  std::vector<Band> bands_ GUARDED_BY(mu_);
  OpenBands open_bands_ GUARDED_BY(mu_);
  std::uint64_t refused_begins_ GUARDED_BY(mu_) = 0;
  std::uint32_t offered_bands_ GUARDED_BY(mu_) = 0;
  std::function<void(BandAddress)> report_overwrite_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::device
