// A zoned disk as a banded device: zones are the bands, and the write pointers are the disk's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "device/backing.h"
#include "device/device.h"
#include "device/open_bands.h"
#include "device/shared_flush.h"
#include "zoned/zone_disk.h"

namespace lazyfs::zoned {

// A band has as many whole blocks as fit into its zone's capacity. The super bands are the first
// two zones that are not conventional.
//
// Invariants, for every band:
//   Z1  the write pointer never passes data whose write has not completed; after a failed write it
//       is taken from a new report of the disk
//   Z2  a band whose append failed refuses appends until it is reset
//   Z3  at most one write to the zone runs, and none while the disk resets or finishes the zone
//   Z4  no more zones are active than the disk allows: before another zone begins, a sealed band is
//       finished. A band whose append failed counts as sealed
//   Z5  a band whose zone the disk has made read-only or offline stays so. If a zone was read-only
//       when the device was opened, its write pointer is unknown, and counts as the end
//
// Thread-safe as device.h specifies. mu_ is a leaf lock and is never held during I/O.
class ZonedDevice final : public device::Device {
 public:
  // On a disk with smaller sectors a power cut may have left a write pointer within a block. Unless
  // `read_only`, make() then writes zeros up to the end of the block; if `read_only`, the partial
  // block does not count. A band whose block cannot be filled counts as one whose append failed.
  // Errors: kZonesBad, kDeviceRead.
  static Result<std::unique_ptr<ZonedDevice>> make(std::unique_ptr<ZoneDisk> disk, bool read_only);

  // What the disk reports now, for display. Error: kDeviceRead.
  Result<std::vector<Zone>> zones() { return report_all(*disk_); }
  DiskLimits limits() const { return disk_->limits(); }

  const device::Geometry& geometry() const override { return geometry_; }
  device::Capabilities capabilities() const override;
  std::string name() const override { return disk_->name(); }
  using Device::append;
  Result<> read(BandAddress from, std::span<std::byte> to) override EXCLUDES(mu_);
  Result<> append(BandAddress to, std::span<const device::Piece> pieces) override EXCLUDES(mu_);
  Result<std::uint32_t> write_pointer(BandId band) override EXCLUDES(mu_);
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override EXCLUDES(mu_);
  Result<> reset(BandId band) override EXCLUDES(mu_);
  void seal(BandId band) override EXCLUDES(mu_);
  // Always kUnsupported, or an error of the band: a reset zone needs no discard.
  Result<std::uint64_t> discard(BandId band) override EXCLUDES(mu_);
  Result<device::BandReport> report(BandId band) override EXCLUDES(mu_);
  Result<> flush() override;

 private:
  struct Band {
    std::uint32_t write_pointer = 0;
    bool is_busy = false;    // Z3: an append runs, or the disk resets or finishes the zone
    bool is_failed = false;  // Z2
    bool is_read_only = false;
    bool is_offline = false;
  };

  ZonedDevice(std::unique_ptr<ZoneDisk> disk, std::vector<Zone> zones, bool read_only);
  void take_pointers() EXCLUDES(mu_);
  Result<> fill_block(BandId band, const Zone& zone) EXCLUDES(mu_);
  void fail_band(BandId band, Errc error) EXCLUDES(mu_);

  bool is_conventional(BandId band) const {
    return geometry_.band_kinds[band.value] == device::BandKind::kConventional;
  }
  std::uint64_t place_of(BandAddress at) const {
    return zones_[at.band.value].start_bytes + std::uint64_t{at.rba} * kBlockBytes;
  }
  Result<Band*> usable_locked(BandId band) REQUIRES(mu_);
  Result<Band*> changeable_locked(BandId band) REQUIRES(mu_);
  Result<> check_append_locked(BandAddress to, std::span<const device::Piece> pieces)
      REQUIRES(mu_);
  // Claims the band for one append.
  Result<> begin_append(BandAddress to, std::span<const device::Piece> pieces) EXCLUDES(mu_);
  // Makes room so that the band may begin (Z4). May release mu_ meanwhile.
  Result<> make_room_locked(BandId band) REQUIRES(mu_);
  bool finish_locked(BandId band) REQUIRES(mu_);
  void place_pointer_locked(BandId band, std::uint32_t rba) REQUIRES(mu_);
  void advance_locked(BandId band, std::uint32_t rba) REQUIRES(mu_);
  void keep_open_locked(BandId band) REQUIRES(mu_);
  Result<> write(std::uint64_t at, std::span<const device::Piece> pieces);
  // After a failed request: asks the disk for the zone's condition. Returns the error that
  // describes it best.
  Errc learn_after(Errc error, BandId band) EXCLUDES(mu_);
  void take_condition_locked(BandId band, const Zone& zone) REQUIRES(mu_);
  void take_pointer_locked(BandId band, const Zone& zone) REQUIRES(mu_);

  const std::unique_ptr<ZoneDisk> disk_;
  const std::vector<Zone> zones_;  // as they were when the device was opened
  const device::Geometry geometry_;
  const bool read_only_;

  Mutex mu_;
  CondVar idle_;  // notified when a band is not busy any more
  std::vector<Band> bands_ GUARDED_BY(mu_);
  device::OpenBands open_bands_ GUARDED_BY(mu_);
  std::uint32_t ending_ GUARDED_BY(mu_) = 0;  // bands that the disk resets or finishes
  device::SharedFlush flush_;
};

using device::OpenOptions;

// A zoned block device. Opened for writing, it gets the scheduler that keeps the order of writes
// (zoned/queue.h).
// Errors: those of Backing::open() and ZonedDevice::make(); kUnsupported if it is not zoned.
Result<std::unique_ptr<ZonedDevice>> open(const std::string& path, OpenOptions options = {});

}  // namespace lazyfs::zoned
