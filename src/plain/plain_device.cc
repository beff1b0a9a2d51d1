#include "plain/plain_device.h"

#include "base/log.h"
#include "plain/grow.h"

namespace lazyfs::plain {
namespace {

using device::BandKind;
using device::Piece;
using device::SharedFlush;

device::Geometry geometry_of(const Identity& identity) {
  const auto blocks = static_cast<std::uint32_t>(identity.band_bytes / identity.block_bytes);
  device::Geometry geometry;
  geometry.block_bytes = identity.block_bytes;
  geometry.band_blocks.assign(identity.band_count, blocks);
  geometry.band_kinds.assign(identity.band_count, BandKind::kShingled);
  geometry.super_bands = identity.super_bands;
  return geometry;
}

}  // namespace

PlainDevice::PlainDevice(FoundIdentity found, device::Backing backing, bool read_only,
                         std::string name)
    : band_bytes_(found.identity.band_bytes),
      geometry_(geometry_of(found.identity)),
      backing_(std::move(backing)),
      read_only_(read_only),
      name_(std::move(name)),
      found_(std::move(found)),
      bands_(geometry().band_count(), unknown_band()) {}

std::uint64_t PlainDevice::band_at(BandId band) const {
  return bands_at() + band.value * band_bytes_;
}

Result<> PlainDevice::read(BandAddress from, std::span<std::byte> to) {
  ASSIGN_OR_RETURN(const std::uint32_t pointer, write_pointer(from.band));
  TRY(device::check_read(geometry(), from, to, pointer));
  if (to.empty()) return ok();
  return backing_.read(place_of(from), to);
}

Result<> PlainDevice::check_change(BandId band) const {
  if (!geometry().has(band)) return fail(Errc::kBadBand);
  return read_only_ ? fail(Errc::kDeviceReadOnly) : ok();
}

Result<std::uint32_t> PlainDevice::begin_append(BandAddress to, std::span<const Piece> pieces) {
  TRY(check_change(to.band));
  MutexLock lock(mu_);
  Band& band = bands_[to.band.value];
  band.discard.await_end(mu_, discard_ended_);
  TRY(device::check_append(geometry(), to, pieces, band.write_pointer));
  if (band.is_failed) return fail(Errc::kBandFailed);
  if (band.is_appending) return fail(Errc::kNotAtWritePointer);
  band.is_appending = true;
  return band.life;
}

Result<> PlainDevice::append(BandAddress to, std::span<const Piece> pieces) {
  ASSIGN_OR_RETURN(const std::uint32_t life, begin_append(to, pieces));
  const auto [bytes, result] = backing_.write(place_of(to), pieces);

  MutexLock lock(mu_);
  flush_.touch();
  Band& band = bands_[to.band.value];
  band.is_appending = false;
  if (band.life != life) return fail(Errc::kNotAtWritePointer);
  band.write_pointer += static_cast<std::uint32_t>(bytes / geometry().block_bytes);  // P1
  band.is_failed = !result;
  return result;
}

Result<std::uint32_t> PlainDevice::write_pointer(BandId band) {
  if (!geometry().has(band)) return fail(Errc::kBadBand);
  MutexLock lock(mu_);
  return bands_[band.value].write_pointer;
}

Result<> PlainDevice::set_write_pointer(BandId id, std::uint32_t rba) {
  TRY(check_change(id));
  MutexLock lock(mu_);
  Band& band = bands_[id.value];
  if (band.is_end_known) return fail(Errc::kUnsupported);
  if (rba > band.write_pointer) return fail(Errc::kPastWritePointer);
  band.write_pointer = rba;
  band.is_end_known = true;
  return ok();
}

Result<> PlainDevice::reset(BandId id) {
  TRY(check_change(id));
  MutexLock lock(mu_);
  Band& band = bands_[id.value];
  band.write_pointer = 0;
  band.is_end_known = true;
  band.is_failed = false;
  ++band.life;
  return ok();
}

Result<std::uint64_t> PlainDevice::discard(BandId id) {
  TRY(check_change(id));
  device::DiscardTurn* turn = nullptr;
  {
    MutexLock lock(mu_);
    Band& band = bands_[id.value];
    const bool is_used = band.is_appending || (band.is_end_known && band.write_pointer > 0);
    if (is_used || band.discard.is_running()) return 0;
    band.discard.begin();
    turn = &band.discard;
  }
  return turn->run(backing_, band_at(id), band_bytes_, mu_, discard_ended_);
}

Result<device::BandReport> PlainDevice::report(BandId band) {
  ASSIGN_OR_RETURN(const std::uint32_t pointer, write_pointer(band));
  const std::uint32_t blocks = geometry().blocks_of(band);
  return device::BandReport{.condition = device::condition_of(pointer, blocks),
                            .blocks = blocks,
                            .write_pointer = pointer};
}

Result<> PlainDevice::grow(std::uint64_t bytes) {
  if (read_only_) return fail(Errc::kDeviceReadOnly);
  return flush_.run_alone([&]() -> Result<> {
    ASSIGN_OR_RETURN(const std::uint64_t size, device::size_to_fill(backing_, bytes));
    ASSIGN_OR_RETURN(Growth growth, plan_growth(identity(), size));
    TRY(device::write_steps(backing_, growth.steps));
    adopt(std::move(growth.identity));
    return ok();
  });
}

void PlainDevice::adopt(Identity grown) {
  device::Geometry geometry = geometry_of(grown);
  {
    MutexLock lock(mu_);
    bands_.resize(geometry.band_count(), unknown_band());
    found_ = {std::move(grown), true, true};
  }
  geometry_.replace(std::move(geometry));
}

Result<> PlainDevice::flush() {
  return flush_.run([this] {
    return backing_.sync() ? SharedFlush::End::kDurable : SharedFlush::End::kWritesLost;
  });
}

Result<std::unique_ptr<PlainDevice>> open(const std::string& path, OpenOptions options) {
  using device::Backing;
  ASSIGN_OR_RETURN(Backing backing, Backing::open(path, options));
  ASSIGN_OR_RETURN(FoundIdentity found, find_identity(backing));
  const Identity& identity = found.identity;
  if ((identity.incompat & ~kKnownIncompat) != 0) return fail(Errc::kIdentityFeatures);
  if (!options.read_only && (identity.ro_compat & ~kKnownRoCompat) != 0) {
    return fail(Errc::kIdentityReadOnly);
  }
  ASSIGN_OR_RETURN(const std::uint64_t size, backing.size_bytes());
  if (size < identity.volume_bytes) return fail(Errc::kDeviceTruncated);
  if (!found.first_is_good && options.warns) {
    log::warn("{}: the identification block at byte {} is damaged; the copy at the end is used. "
              "fsck.lazyfs -y rewrites the damaged one",
              path, kIdentityAt);
  }
  if (identity.block_bytes % kBlockBytes == 0) backing.prefer_direct();
  // Writes of an earlier process may not be durable yet, but the writes of this process rely on
  // them.
  if (!options.read_only) TRY(backing.sync());
  return std::make_unique<PlainDevice>(std::move(found), std::move(backing), options.read_only,
                                       path);
}

}  // namespace lazyfs::plain
