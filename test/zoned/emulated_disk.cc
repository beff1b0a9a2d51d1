#include "test/zoned/emulated_disk.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lazyfs::zoned {

using device::Piece;

EmulatedMedium::EmulatedMedium(Shape the_shape)
    : shape(the_shape), zones(shape.zones), bytes(shape.zones * shape.zone_bytes) {
  for (std::uint32_t i = 0; i < shape.zones; ++i) {
    const bool is_conventional = i < shape.conventional;
    const bool is_whole = is_conventional || shape.capacity_bytes == 0;
    zones[i] = {.type = is_conventional ? ZoneType::kConventional : ZoneType::kSequential,
                .condition = is_conventional ? ZoneCondition::kNoWritePointer
                                             : ZoneCondition::kEmpty,
                .start_bytes = i * shape.zone_bytes,
                .size_bytes = shape.zone_bytes,
                .capacity_bytes = is_whole ? shape.zone_bytes : shape.capacity_bytes};
  }
}

void EmulatedDisk::run_once(std::function<void()>& hook) {
  if (const auto work = std::exchange(hook, nullptr)) work();
}

Zone& EmulatedDisk::zone_at_locked(std::uint64_t at) {
  return medium_->zones.at(at / medium_->shape.zone_bytes);
}

std::uint32_t EmulatedDisk::active_locked() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      medium_->zones, [](const Zone& zone) { return is_active(zone.condition); }));
}

Result<std::vector<Zone>> EmulatedDisk::report(std::uint32_t first, std::uint32_t count) {
  std::vector<Zone> found;
  {
    MutexLock lock(medium_->mu);
    const auto begin = medium_->zones.begin() + std::min(first, zone_count());
    found.assign(begin, begin + std::min(count, zone_count() - first));
  }
  run_once(medium_->after_report);
  return found;
}

Result<> EmulatedDisk::read(std::uint64_t at, std::span<std::byte> to) {
  MutexLock lock(medium_->mu);
  const bool fails = medium_->failing_reads > 0;
  if (fails) --medium_->failing_reads;
  if (fails || zone_at_locked(at).condition == ZoneCondition::kOffline) {
    return fail(Errc::kDeviceRead);
  }
  std::memcpy(to.data(), medium_->bytes.data() + at, to.size());
  return ok();
}

Result<> EmulatedDisk::check_write_locked(const Zone& zone, std::uint64_t at,
                                          std::uint64_t length) {
  const DiskLimits& limits = medium_->shape.limits;
  const bool is_whole = at % limits.write_bytes == 0 && length % limits.write_bytes == 0;
  const bool is_small = limits.max_write_bytes == 0 || length <= limits.max_write_bytes;
  const bool fits = at + length <= zone.start_bytes + zone.capacity_bytes;
  const bool is_broken =
      zone.condition == ZoneCondition::kReadOnly || zone.condition == ZoneCondition::kOffline;
  if (!is_whole || !is_small || !fits || is_broken) return fail(Errc::kDeviceWrite);
  if (zone.type == ZoneType::kConventional) return ok();
  const bool is_next = at == zone.start_bytes + zone.written_bytes;
  const bool begins = !is_active(zone.condition);
  const bool may_begin =
      limits.max_active_zones == 0 || active_locked() < limits.max_active_zones;
  return is_next && (!begins || may_begin) ? ok() : fail(Errc::kDeviceWrite);
}

Result<> EmulatedDisk::write(std::uint64_t at, std::span<const Piece> pieces) {
  const auto done = [&] {
    MutexLock lock(medium_->mu);
    return write_locked(at, pieces);
  }();
  run_once(medium_->after_write);
  return done;
}

Result<> EmulatedDisk::write_locked(std::uint64_t at, std::span<const Piece> pieces) {
  Zone& zone = zone_at_locked(at);
  std::uint64_t left = device::bytes_of(pieces);
  TRY(check_write_locked(zone, at, left));
  ++medium_->writes;
  const bool fails = medium_->failing_write > 0 && --medium_->failing_write == 0;
  if (fails) left = std::min(left, medium_->bytes_of_failing);
  for (const Piece& piece : pieces) {
    const std::size_t length = std::min<std::uint64_t>(piece.size(), left);
    std::memcpy(medium_->bytes.data() + at, piece.data(), length);
    at += length;
    left -= length;
  }
  if (zone.type != ZoneType::kConventional) {
    zone.written_bytes = at - zone.start_bytes;
    const bool is_full = zone.written_bytes == zone.capacity_bytes;
    const bool is_begun = zone.written_bytes > 0;
    zone.condition = is_full    ? ZoneCondition::kFull
                     : is_begun ? ZoneCondition::kImplicitlyOpen
                                : ZoneCondition::kEmpty;
  }
  return fails ? fail(Errc::kDeviceWrite) : ok();
}

Result<> EmulatedDisk::change(const Zone& named, const std::function<Result<>(Zone&)>& apply) {
  MutexLock lock(medium_->mu);
  Zone& zone = zone_at_locked(named.start_bytes);
  const bool is_fixed = zone.type == ZoneType::kConventional ||
                        zone.condition == ZoneCondition::kReadOnly ||
                        zone.condition == ZoneCondition::kOffline;
  return is_fixed ? fail(Errc::kDeviceWrite) : apply(zone);
}

Result<> EmulatedDisk::reset(const Zone& named) {
  auto done = change(named, [this](Zone& zone) REQUIRES(medium_->mu) -> Result<> {
    if (medium_->failing_resets > 0) {
      --medium_->failing_resets;
      return fail(Errc::kDeviceWrite);
    }
    zone.written_bytes = 0;
    zone.condition = ZoneCondition::kEmpty;
    return ok();
  });
  run_once(medium_->after_reset);
  return done;
}

Result<> EmulatedDisk::finish(const Zone& named) {
  auto done = change(named, [this](Zone& zone) REQUIRES(medium_->mu) -> Result<> {
    if (medium_->failing_finishes > 0) {
      --medium_->failing_finishes;
      return fail(Errc::kDeviceWrite);
    }
    zone.written_bytes = zone.capacity_bytes;
    zone.condition = ZoneCondition::kFull;
    ++medium_->finishes;
    return ok();
  });
  run_once(medium_->after_finish);
  return done;
}

Result<> EmulatedDisk::sync() {
  MutexLock lock(medium_->mu);
  ++medium_->syncs;
  if (medium_->failing_syncs == 0) return ok();
  --medium_->failing_syncs;
  return fail(Errc::kDeviceFlush);
}

}  // namespace lazyfs::zoned
