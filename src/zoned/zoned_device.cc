#include "zoned/zoned_device.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <set>

#include "base/buffer.h"
#include "base/log.h"

namespace lazyfs::zoned {
namespace {

using device::BandCondition;
using device::BandKind;
using device::Piece;
using device::SharedFlush;

std::uint32_t blocks_of(const Zone& zone) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(zone.capacity_bytes / kBlockBytes, UINT32_MAX));
}

device::Geometry geometry_of(const std::vector<Zone>& zones) {
  device::Geometry geometry;
  std::ranges::transform(zones, std::back_inserter(geometry.band_blocks), blocks_of);
  for (const Zone& zone : zones) {
    const bool is_conventional = zone.type == ZoneType::kConventional;
    geometry.band_kinds.push_back(is_conventional ? BandKind::kConventional : BandKind::kShingled);
  }
  geometry.super_bands = geometry.first_shingled();
  return geometry;
}

std::uint32_t open_limit(const DiskLimits& limits) {
  const std::uint32_t open = limits.max_open_zones, active = limits.max_active_zones;
  return open == 0 || active == 0 ? std::max(open, active) : std::min(open, active);
}

Result<> check(const std::vector<Zone>& zones, const DiskLimits& limits) {
  const bool is_whole = std::ranges::all_of(zones, [](const Zone& zone) {
    return zone.start_bytes % kBlockBytes == 0 && zone.capacity_bytes <= zone.size_bytes;
  });
  const bool fits = limits.write_bytes > 0 && kBlockBytes % limits.write_bytes == 0;
  return !zones.empty() && is_whole && fits ? ok() : fail(Errc::kZonesBad);
}

// The part of `pieces` that follows the first `skip` bytes, at most `most` bytes of it.
std::vector<Piece> part_of(std::span<const Piece> pieces, std::size_t skip, std::size_t most) {
  std::vector<Piece> part;
  for (const Piece& piece : pieces) {
    const std::size_t skipped = std::min(skip, piece.size());
    skip -= skipped;
    const Piece taken = piece.subspan(skipped).first(std::min(piece.size() - skipped, most));
    most -= taken.size();
    if (!taken.empty()) part.push_back(taken);
    if (most == 0) break;
  }
  return part;
}

}  // namespace

ZonedDevice::ZonedDevice(std::unique_ptr<ZoneDisk> disk, std::vector<Zone> zones, bool read_only)
    : disk_(std::move(disk)),
      zones_(std::move(zones)),
      geometry_(geometry_of(zones_)),
      read_only_(read_only),
      bands_(zones_.size()),
      open_bands_(open_limit(disk_->limits())) {}

Result<std::unique_ptr<ZonedDevice>> ZonedDevice::make(std::unique_ptr<ZoneDisk> disk,
                                                       bool read_only) {
  ASSIGN_OR_RETURN(std::vector<Zone> zones, report_all(*disk));
  TRY(check(zones, disk->limits()));
  std::unique_ptr<ZonedDevice> device(
      new ZonedDevice(std::move(disk), std::move(zones), read_only));
  device->take_pointers();
  return device;
}

void ZonedDevice::take_pointers() {
  for (std::uint32_t i = 0; i < zones_.size(); ++i) {
    const Zone& zone = zones_[i];
    {
      MutexLock lock(mu_);
      take_condition_locked(BandId{i}, zone);
      take_pointer_locked(BandId{i}, zone);
      const bool is_unknown = is_conventional(BandId{i}) || bands_[i].is_read_only;
      if (is_unknown) bands_[i].write_pointer = blocks_of(zone);  // Z5
    }
    if (read_only_ || !is_active(zone.condition)) continue;
    if (auto filled = fill_block(BandId{i}, zone); !filled) fail_band(BandId{i}, filled.error());
  }
}

// Sets aside a band whose partial block cannot be filled. The other bands can be used.
void ZonedDevice::fail_band(BandId band, Errc error) {
  log::error("{}: zone {} ends within a block, which cannot be filled: {}", disk_->name(),
             band.value, describe(learn_after(error, band)));
  MutexLock lock(mu_);
  bands_[band.value].is_failed = true;  // Z2
  open_bands_.seal(band);               // Z4
}

Result<> ZonedDevice::fill_block(BandId band, const Zone& zone) {
  const std::uint64_t in_block = zone.written_bytes % kBlockBytes;
  if (in_block == 0 || zone.written_bytes / kBlockBytes >= blocks_of(zone)) return ok();
  const AlignedBuffer zeros = AlignedBuffer::zeroed(kBlockBytes);
  const Piece filler = zeros.span().first(kBlockBytes - in_block);
  log::debug("{}: zone {} ends within a block, which is filled", disk_->name(), band.value);
  TRY(disk_->write(zone.start_bytes + zone.written_bytes, std::span(&filler, 1)));
  flush_.touch();
  MutexLock lock(mu_);
  advance_locked(band, bands_[band.value].write_pointer + 1);
  return ok();
}

device::Capabilities ZonedDevice::capabilities() const {
  return {.discards = false,  // the reset of a zone is all that can be done
          .max_open_bands = open_limit(disk_->limits()),
          .read_only = read_only_};
}

// ---- states -------------------------------------------------------------------------------------

void ZonedDevice::place_pointer_locked(BandId band, std::uint32_t rba) {
  bands_[band.value].write_pointer = rba;
  open_bands_.note(band, rba, geometry_.blocks_of(band));
}

// After a write that ended at `rba`.
void ZonedDevice::advance_locked(BandId band, std::uint32_t rba) {
  place_pointer_locked(band, rba);
  const bool is_full = std::uint64_t{rba} * kBlockBytes == zones_[band.value].capacity_bytes;
  if (!is_full) keep_open_locked(band);
  // The error of a reader may have shown this during the write.
  if (bands_[band.value].is_read_only) open_bands_.end(band);
}

void ZonedDevice::take_condition_locked(BandId id, const Zone& zone) {
  Band& band = bands_[id.value];
  band.is_offline |= zone.condition == ZoneCondition::kOffline;
  band.is_read_only |= zone.condition == ZoneCondition::kReadOnly || band.is_offline;
  if (band.is_read_only) open_bands_.end(id);
}

void ZonedDevice::take_pointer_locked(BandId id, const Zone& zone) {
  if (bands_[id.value].is_read_only || is_conventional(id)) return;
  const std::uint32_t blocks = geometry_.blocks_of(id);
  const bool is_full = zone.condition == ZoneCondition::kFull;
  const std::uint64_t written = is_full ? blocks : zone.written_bytes / kBlockBytes;
  place_pointer_locked(id, static_cast<std::uint32_t>(std::min<std::uint64_t>(written, blocks)));
  if (is_active(zone.condition)) keep_open_locked(id);
}

// For the disk the zone is active, wherever its write pointer is: it may be open and empty, or all
// but its last partial block may be written.
void ZonedDevice::keep_open_locked(BandId band) {
  open_bands_.begin(band);
  if (bands_[band.value].write_pointer == geometry_.blocks_of(band)) open_bands_.seal(band);
}

Result<ZonedDevice::Band*> ZonedDevice::usable_locked(BandId band) {
  if (!geometry_.has(band)) return fail(Errc::kBadBand);
  if (bands_[band.value].is_offline) return fail(Errc::kBandOffline);
  return &bands_[band.value];
}

Result<ZonedDevice::Band*> ZonedDevice::changeable_locked(BandId band) {
  if (!geometry_.has(band)) return fail(Errc::kBadBand);
  if (read_only_) return fail(Errc::kDeviceReadOnly);
  ASSIGN_OR_RETURN(Band* const found, usable_locked(band));
  if (found->is_read_only) return fail(Errc::kBandReadOnly);
  return found;
}

Errc ZonedDevice::learn_after(Errc error, BandId band) try {
  const auto zones = disk_->report(band.value, 1);
  if (!zones || zones->empty()) return error;
  const Zone& zone = zones->front();
  MutexLock lock(mu_);
  take_condition_locked(band, zone);
  // A reader does not claim the band, so an append may have moved the pointer since the report
  // (Z1).
  const bool is_read = error == Errc::kDeviceRead;
  if (!is_read) take_pointer_locked(band, zone);
  const Band& found = bands_[band.value];
  log::debug("{}: zone {} after an error: {}, written up to {}", disk_->name(), band.value,
             to_string(zone.condition), zone.written_bytes);
  if (found.is_offline) return Errc::kBandOffline;
  return found.is_read_only && !is_read ? Errc::kBandReadOnly : error;
} catch (const std::bad_alloc&) {
  return error;
}

Result<std::uint32_t> ZonedDevice::write_pointer(BandId band) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const Band* const found, usable_locked(band));
  return found->write_pointer;
}

Result<device::BandReport> ZonedDevice::report(BandId band) {
  MutexLock lock(mu_);
  if (!geometry_.has(band)) return fail(Errc::kBadBand);
  const Band& found = bands_[band.value];
  device::BandReport report{.kind = geometry_.band_kinds[band.value],
                            .blocks = geometry_.blocks_of(band),
                            .write_pointer = found.write_pointer};
  report.condition = found.is_offline     ? BandCondition::kOffline
                     : found.is_read_only ? BandCondition::kReadOnly
                                          : device::condition_of(report.write_pointer,
                                                                 report.blocks);
  return report;
}

// ---- reading and writing ------------------------------------------------------------------------

Result<> ZonedDevice::read(BandAddress from, std::span<std::byte> to) {
  ASSIGN_OR_RETURN(const std::uint32_t pointer, write_pointer(from.band));
  TRY(device::check_read(geometry_, from, to, pointer));
  if (to.empty()) return ok();
  const auto done = disk_->read(place_of(from), to);
  return done ? done : fail(learn_after(done.error(), from.band));
}

Result<> ZonedDevice::make_room_locked(BandId band) {
  std::set<BandId> unfinished;  // the disk failed to finish them; tried again for the next band
  while (!open_bands_.is_open(band) && !open_bands_.may_begin()) {
    const auto sealed = open_bands_.sealed(unfinished);
    if (sealed && !bands_[sealed->value].is_busy) {
      if (!finish_locked(*sealed)) unfinished.insert(*sealed);
    } else if (sealed || ending_ > 0) {  // sealed during an append (Z3)
      idle_.wait(mu_);
    } else {
      return fail(Errc::kTooManyOpenBands);
    }
  }
  return ok();
}

// Releases mu_ while the disk works. Returns false if the disk fails; the band is still sealed
// then.
bool ZonedDevice::finish_locked(BandId band) {
  open_bands_.unseal(band);  // so no other thread finishes it
  bands_[band.value].is_busy = true;
  ++ending_;
  mu_.unlock();
  const auto done = disk_->finish(zones_[band.value]);
  flush_.touch();
  if (!done) {
    log::error("{}: zone {} cannot be finished: {}", disk_->name(), band.value,
               describe(learn_after(done.error(), band)));
  }
  mu_.lock();
  done ? place_pointer_locked(band, geometry_.blocks_of(band)) : open_bands_.seal(band);
  bands_[band.value].is_busy = false;
  --ending_;
  idle_.notify_all();
  return done.has_value();
}

Result<> ZonedDevice::check_append_locked(BandAddress to, std::span<const Piece> pieces) {
  ASSIGN_OR_RETURN(const Band* const band, changeable_locked(to.band));
  TRY(device::check_append(geometry_, to, pieces, band->write_pointer));
  if (is_conventional(to.band) || device::bytes_of(pieces) == 0) return ok();
  if (band->is_failed) return fail(Errc::kBandFailed);
  return band->is_busy ? fail(Errc::kNotAtWritePointer) : ok();
}

Result<> ZonedDevice::begin_append(BandAddress to, std::span<const Piece> pieces) {
  MutexLock lock(mu_);
  TRY(check_append_locked(to, pieces));
  if (is_conventional(to.band) || device::bytes_of(pieces) == 0) return ok();
  TRY(make_room_locked(to.band));
  TRY(check_append_locked(to, pieces));  // what other threads have done meanwhile
  open_bands_.begin(to.band);
  bands_[to.band.value].is_busy = true;
  return ok();
}

// Writes the pieces in order, each write at most as long as the disk takes at once. Does not throw
// std::bad_alloc, because append() has begun.
Result<> ZonedDevice::write(std::uint64_t at, std::span<const Piece> pieces) try {
  const std::size_t total = device::bytes_of(pieces);
  const std::uint64_t limit = disk_->limits().max_write_bytes / kBlockBytes * kBlockBytes;
  const std::size_t most = limit == 0 ? total : static_cast<std::size_t>(limit);
  for (std::size_t done = 0; done < total;) {
    const std::vector<Piece> part = part_of(pieces, done, most);
    TRY(disk_->write(at + done, part));
    done += device::bytes_of(part);
  }
  return ok();
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

Result<> ZonedDevice::append(BandAddress to, std::span<const Piece> pieces) {
  TRY(begin_append(to, pieces));
  if (device::bytes_of(pieces) == 0) return ok();
  auto done = write(place_of(to), pieces);
  flush_.touch();
  if (!done) done = fail(learn_after(done.error(), to.band));
  if (is_conventional(to.band)) return done;

  MutexLock lock(mu_);
  Band& band = bands_[to.band.value];
  band.is_busy = false;
  idle_.notify_all();
  band.is_failed = !done;
  const std::uint32_t end =
      to.rba + static_cast<std::uint32_t>(device::bytes_of(pieces) / kBlockBytes);
  done ? advance_locked(to.band, end) : open_bands_.seal(to.band);  // Z4
  return done;
}

Result<> ZonedDevice::set_write_pointer(BandId band, std::uint32_t) {
  MutexLock lock(mu_);
  TRY(changeable_locked(band));
  return fail(Errc::kUnsupported);
}

Result<> ZonedDevice::reset(BandId id) {
  bool is_sealed = false;
  {
    MutexLock lock(mu_);
    ASSIGN_OR_RETURN(Band* const band, changeable_locked(id));
    if (is_conventional(id)) return fail(Errc::kUnsupported);
    while (band->is_busy) idle_.wait(mu_);
    const bool is_empty = band->write_pointer == 0 && !open_bands_.is_open(id);
    if (is_empty && !band->is_failed) return ok();
    band->is_busy = true;
    is_sealed = open_bands_.is_sealed(id);
    open_bands_.unseal(id);  // other threads do not finish the zone (Z3) but wait
    ++ending_;
  }
  auto done = disk_->reset(zones_[id.value]);
  flush_.touch();
  if (!done) done = fail(learn_after(done.error(), id));
  MutexLock lock(mu_);
  Band& band = bands_[id.value];
  band.is_busy = false;
  --ending_;
  idle_.notify_all();
  if (!done && is_sealed) open_bands_.seal(id);
  if (!done) return done;
  band.is_failed = false;
  place_pointer_locked(id, 0);
  return ok();
}

void ZonedDevice::seal(BandId band) {
  MutexLock lock(mu_);
  if (geometry_.has(band)) open_bands_.seal(band);
}

Result<std::uint64_t> ZonedDevice::discard(BandId band) {
  MutexLock lock(mu_);
  TRY(changeable_locked(band));
  return fail(Errc::kUnsupported);
}

Result<> ZonedDevice::flush() {
  return flush_.run([this] {
    return disk_->sync() ? SharedFlush::End::kDurable : SharedFlush::End::kWritesLost;
  });
}

}  // namespace lazyfs::zoned
