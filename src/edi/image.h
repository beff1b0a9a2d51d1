// An Emulated Disk Image as a banded device: in a file or on a plain block device.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "device/backing.h"
#include "device/discard_turn.h"
#include "device/shared_flush.h"
#include "device/versions.h"
#include "edi/layout.h"
#include "edi/pointer_table.h"

namespace lazyfs::edi {

// Invariants, for every band:
//   E1  the write pointer in memory never passes data whose write has not completed
//   E2  the write pointer on disk equals a value that the write pointer in memory had at or after
//       the last successful flush
//   E3  a band whose append failed refuses appends until it is reset or its write pointer is set
//   E4  after a failed barrier every flush fails until the image is opened again (Q3 of
//       device/shared_flush.h)
//   E5  a band is discarded only while it is empty; an append waits
//   E6  the next flush rewrites each copy of a table block that was damaged when the image was
//       opened, for example by a power cut
//
// Thread-safe as device.h specifies. mu_ is a leaf lock and is never held during I/O. Only the
// running flush reads and writes by table_; growing, which runs alone, replaces table_ and layout_.
class Image final : public device::Device {
 public:
  Image(Layout layout, Backing backing, std::unique_ptr<PointerTable> table,
        std::vector<std::uint32_t> pointers, bool read_only, std::string name);

  // A later layout has the bands of earlier ones at the same places.
  const Layout& layout() const { return layout_.now(); }
  const Backing& backing() const { return backing_; }
  // The number of write barriers so far. A flush costs one at most.
  std::uint64_t barriers() const { return barriers_; }

  const device::Geometry& geometry() const override { return layout().geometry; }
  device::Capabilities capabilities() const override {
    return {.set_write_pointer = true, .read_only = read_only_};
  }
  std::string name() const override { return name_; }
  using Device::append;
  Result<> read(BandAddress from, std::span<std::byte> to) override EXCLUDES(mu_);
  Result<> append(BandAddress to, std::span<const device::Piece> pieces) override EXCLUDES(mu_);
  Result<std::uint32_t> write_pointer(BandId band) override EXCLUDES(mu_);
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override EXCLUDES(mu_);
  Result<> reset(BandId band) override EXCLUDES(mu_);
  Result<std::uint64_t> discard(BandId band) override EXCLUDES(mu_);
  Result<device::BandReport> report(BandId band) override EXCLUDES(mu_);
  Result<> grow(std::uint64_t bytes) override EXCLUDES(mu_);
  Result<> flush() override EXCLUDES(mu_);

 private:
  struct Band {
    std::uint32_t write_pointer = 0;
    std::uint32_t life = 0;  // +1 when the pointer moves back: a running append is then void
    bool is_appending = false;
    bool is_failed = false;  // E3
    device::DiscardTurn discard;  // E5
  };

  Result<> check_band(BandId band) const;
  bool is_conventional(BandId band) const {
    return layout().geometry.band_kinds[band.value] == device::BandKind::kConventional;
  }
  std::uint64_t place_of(BandAddress at) const {
    return layout().band_starts[at.band.value] +
           std::uint64_t{at.rba} * layout().geometry.block_bytes;
  }
  // Claims the band for one append; returns its life.
  Result<std::uint32_t> begin_append(BandAddress to, std::span<const device::Piece> pieces)
      EXCLUDES(mu_);
  void move_back_locked(BandId band, std::uint32_t rba) REQUIRES(mu_);
  void touch_locked(BandId band) REQUIRES(mu_);
  device::SharedFlush::End write_out() EXCLUDES(mu_);
  Result<> write_table(const std::vector<std::uint32_t>& blocks) EXCLUDES(mu_);
  void adopt(Layout larger, std::unique_ptr<PointerTable> table) EXCLUDES(mu_);

  device::Versions<Layout> layout_;
  const Backing backing_;
  std::unique_ptr<PointerTable> table_;
  const bool read_only_;
  const std::string name_;

  Mutex mu_;
  CondVar discard_ended_;
  std::deque<Band> bands_ GUARDED_BY(mu_);  // grows while other threads hold references
  std::vector<bool> dirty_blocks_ GUARDED_BY(mu_);  // of the table
  device::SharedFlush flush_;
  std::atomic<std::uint64_t> barriers_{0};
};

using device::OpenOptions;

// A lost or damaged copy of the header is replaced by the other one, if that one is valid and its
// image fits the device; open() then logs a warning (`warns`), open_image() does not. An
// intact copy that is older than the other one is rewritten by open() for writing.
// Errors: kEdiBadMagic, kEdiBadVersion, kEdiBadChecksum, kEdiBadHeader, kDeviceTruncated,
// kDeviceMissing, kDeviceAccess, kDeviceBusy, kDeviceReadOnly, kDeviceRead.
Result<std::unique_ptr<Image>> open_image(const std::string& path, OpenOptions options = {});
Result<std::unique_ptr<device::Device>> open(const std::string& path, OpenOptions options = {});

}  // namespace lazyfs::edi
