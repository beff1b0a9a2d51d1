// A plain block device as a banded device: bands between two identification blocks, no write
// pointers. All that it writes are appends.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "device/backing.h"
#include "device/device.h"
#include "device/discard_turn.h"
#include "device/shared_flush.h"
#include "device/versions.h"
#include "plain/identity.h"

namespace lazyfs::plain {

// Invariants, for every band:
//   P1  the write pointer never passes data whose write has not completed
//   P2  a band whose append failed refuses appends until it is reset
//   P3  nothing outside of the bands is written or discarded, except that grow() writes
//       identification blocks
//   P4  a band is discarded only while it is empty or its end is unknown; an append waits for the
//       end of the discard
//
// Thread-safe as device.h specifies. mu_ is never held during I/O; only flush_'s lock is taken
// under it.
class PlainDevice final : public device::Device {
 public:
  PlainDevice(FoundIdentity found, device::Backing backing, bool read_only, std::string name);

  Identity identity() const EXCLUDES(mu_) { return found().identity; }
  // The identity, and which of the two identification blocks were intact when the device was opened
  // or grew.
  FoundIdentity found() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return found_;
  }
  const device::Backing& backing() const { return backing_; }
  // The byte of the block device at which a band begins.
  std::uint64_t band_at(BandId band) const;

  const device::Geometry& geometry() const override { return geometry_.now(); }
  device::Capabilities capabilities() const override {
    return {.keeps_write_pointers = false, .read_only = read_only_};
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
  Result<> flush() override;

 private:
  struct Band {
    std::uint32_t write_pointer = 0;
    std::uint32_t life = 0;  // +1 at each reset: a running append is then void
    bool is_end_known = false;
    bool is_appending = false;
    bool is_failed = false;  // P2
    device::DiscardTurn discard;  // P4
  };

  // A band as it is when the device is opened (W1).
  Band unknown_band() const {
    return {.write_pointer = static_cast<std::uint32_t>(band_bytes_ / geometry().block_bytes)};
  }
  Result<> check_change(BandId band) const;
  std::uint64_t place_of(BandAddress at) const {
    return band_at(at.band) + std::uint64_t{at.rba} * geometry().block_bytes;
  }
  // Claims the band for one append; returns its life.
  Result<std::uint32_t> begin_append(BandAddress to, std::span<const device::Piece> pieces)
      EXCLUDES(mu_);

  void adopt(Identity grown) EXCLUDES(mu_);

  const std::uint64_t band_bytes_;
  device::Versions<device::Geometry> geometry_;  // replaced only within flush_.run_alone()
  const device::Backing backing_;
  const bool read_only_;
  const std::string name_;

  mutable Mutex mu_;
  CondVar discard_ended_;
  FoundIdentity found_ GUARDED_BY(mu_);
  std::deque<Band> bands_ GUARDED_BY(mu_);  // grows while others hold references
  device::SharedFlush flush_;
};

using device::OpenOptions;

// Warns when the first identification block is damaged and the copy is used.
// Errors: kIdentityMissing, kIdentityBad, kIdentityFeatures for features that this version must
// know, kIdentityReadOnly for features that it must know to write, kDeviceTruncated,
// kDeviceMissing, kDeviceAccess, kDeviceBusy, kDeviceReadOnly, kDeviceRead.
Result<std::unique_ptr<PlainDevice>> open(const std::string& path, OpenOptions options = {});

}  // namespace lazyfs::plain
