#include "device/memory.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/log.h"

namespace lazyfs::device {

MemoryDevice::MemoryDevice(Geometry geometry, Capabilities capabilities)
    : geometry_(std::move(geometry)),
      capabilities_(capabilities),
      bands_(geometry_.now().band_count()),
      open_bands_(capabilities.max_open_bands) {
  CHECK(geometry_.now().band_kinds.size() == geometry_.now().band_blocks.size());
  for (std::uint32_t i = 0; i < geometry_.now().band_count(); ++i) {
    if (is_conventional(BandId{i})) bands_[i].write_pointer = geometry_.now().band_blocks[i];
  }
  forget_write_pointers();
}

std::unique_ptr<MemoryDevice> MemoryDevice::uniform(std::uint32_t bands, std::uint32_t band_blocks,
                                                    Capabilities capabilities) {
  Geometry geometry;
  geometry.band_blocks.assign(bands, band_blocks);
  geometry.band_kinds.assign(bands, BandKind::kShingled);
  return std::make_unique<MemoryDevice>(std::move(geometry), capabilities);
}

Result<MemoryDevice::Band*> MemoryDevice::readable_locked(BandId band) {
  if (!geometry().has(band)) return fail(Errc::kBadBand);
  if (bands_[band.value].is_offline) return fail(Errc::kBandOffline);
  return &bands_[band.value];
}

Result<MemoryDevice::Band*> MemoryDevice::writable_locked(BandId band) {
  if (capabilities_.read_only) return fail(Errc::kDeviceReadOnly);
  ASSIGN_OR_RETURN(Band* const found, readable_locked(band));
  if (found->is_read_only) return fail(Errc::kBandReadOnly);
  return found;
}

std::byte* MemoryDevice::place_locked(BandAddress at) {
  Band& band = bands_[at.band.value];
  if (!band.bytes) {
    band.bytes =
        AlignedBuffer::zeroed(std::size_t{geometry().blocks_of(at.band)} * geometry().block_bytes);
  }
  return band.bytes.data() + std::size_t{at.rba} * geometry().block_bytes;
}

// Checks rule W3. A conventional band takes writes anywhere.
void MemoryDevice::mark_written_locked(BandAddress from, std::size_t blocks) {
  if (capabilities_.keeps_write_pointers || is_conventional(from.band)) return;
  std::vector<bool>& written = bands_[from.band.value].written;
  written.resize(geometry().blocks_of(from.band));
  for (std::size_t i = 0; i < blocks; ++i) {
    const auto rba = static_cast<std::uint32_t>(from.rba + i);
    if (written[rba] && !report_overwrite_) {
      log::error("band {} block {} is written twice between two resets", from.band.value, rba);
    }
    CHECK(!written[rba] || report_overwrite_);
    if (written[rba]) report_overwrite_({from.band, rba});
    written[rba] = true;
  }
}

Result<> MemoryDevice::read(BandAddress from, std::span<std::byte> to) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const Band* const band, readable_locked(from.band));
  TRY(check_read(geometry(), from, to, band->write_pointer));
  if (to.empty()) return ok();
  if (!band->bytes) {
    std::memset(to.data(), 0, to.size());
    return ok();
  }
  std::memcpy(to.data(), place_locked(from), to.size());
  return ok();
}

void MemoryDevice::place_pointer_locked(BandId band, std::uint32_t rba) {
  bands_[band.value].write_pointer = rba;
  open_bands_.note(band, rba, geometry().blocks_of(band));
}

// Finishes a sealed band when the device allows no further partly written band.
Result<> MemoryDevice::make_room_to_begin_locked(BandId band) {
  if (is_conventional(band) || open_bands_.is_open(band) || open_bands_.may_begin()) return ok();
  if (const auto sealed = open_bands_.sealed()) {
    place_pointer_locked(*sealed, geometry().blocks_of(*sealed));
    return ok();
  }
  ++refused_begins_;
  return fail(Errc::kTooManyOpenBands);
}

Result<> MemoryDevice::append(BandAddress to, std::span<const Piece> pieces) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Band* const band, writable_locked(to.band));
  TRY(check_append(geometry(), to, pieces, band->write_pointer));
  if (bytes_of(pieces) > 0) TRY(make_room_to_begin_locked(to.band));
  mark_written_locked(to, bytes_of(pieces) / geometry().block_bytes);
  std::byte* at = place_locked(to);
  for (const Piece& piece : pieces) {
    if (!piece.empty()) std::memcpy(at, piece.data(), piece.size());
    at += piece.size();
  }
  if (!is_conventional(to.band)) {
    const auto blocks = static_cast<std::uint32_t>(bytes_of(pieces) / geometry().block_bytes);
    place_pointer_locked(to.band, band->write_pointer + blocks);
  }
  return ok();
}

Result<std::uint32_t> MemoryDevice::write_pointer(BandId band) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const Band* const found, readable_locked(band));
  return found->write_pointer;
}

Result<> MemoryDevice::set_write_pointer(BandId band, std::uint32_t rba) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Band* const found, writable_locked(band));
  const bool can_set = capabilities_.set_write_pointer || !found->is_end_known;
  if (!can_set || is_conventional(band)) return fail(Errc::kUnsupported);
  if (rba > found->write_pointer) return fail(Errc::kPastWritePointer);
  place_pointer_locked(band, rba);
  found->is_end_known = true;
  return ok();
}

Result<> MemoryDevice::reset(BandId band) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Band* const found, writable_locked(band));
  if (is_conventional(band)) return fail(Errc::kUnsupported);
  open_bands_.end(band);
  if (capabilities_.keeps_write_pointers) {
    *found = Band{};
  } else {
    found->write_pointer = 0;
    found->is_end_known = true;
    found->written.clear();
  }
  return ok();
}

void MemoryDevice::seal(BandId band) {
  MutexLock lock(mu_);
  if (geometry().has(band)) open_bands_.seal(band);
}

Result<std::uint64_t> MemoryDevice::discard(BandId band) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Band* const found, writable_locked(band));
  if (is_conventional(band)) return fail(Errc::kUnsupported);
  if (found->is_end_known && found->write_pointer > 0) return 0;
  const std::uint64_t bytes = std::uint64_t{geometry().blocks_of(band)} * geometry().block_bytes;
  if (found->bytes.size() > 0) std::memset(found->bytes.data(), 0, found->bytes.size());
  return bytes;
}

Result<BandReport> MemoryDevice::report(BandId band) {
  MutexLock lock(mu_);
  if (!geometry().has(band)) return fail(Errc::kBadBand);
  const Band& found = bands_[band.value];
  BandReport report{.kind = geometry().band_kinds[band.value],
                    .blocks = geometry().blocks_of(band),
                    .write_pointer = found.write_pointer};
  report.condition = found.is_offline     ? BandCondition::kOffline
                     : found.is_read_only ? BandCondition::kReadOnly
                                          : condition_of(report.write_pointer, report.blocks);
  return report;
}

void MemoryDevice::poke(BandAddress at, std::span<const std::byte> bytes) {
  MutexLock lock(mu_);
  CHECK(geometry().has(at.band));
  CHECK(std::uint64_t{at.rba} * geometry().block_bytes + bytes.size() <=
        std::uint64_t{geometry().blocks_of(at.band)} * geometry().block_bytes);
  if (!bytes.empty()) std::memcpy(place_locked(at), bytes.data(), bytes.size());
}

void MemoryDevice::peek(BandAddress at, std::span<std::byte> bytes) {
  MutexLock lock(mu_);
  CHECK(geometry().has(at.band));
  CHECK(std::uint64_t{at.rba} * geometry().block_bytes + bytes.size() <=
        std::uint64_t{geometry().blocks_of(at.band)} * geometry().block_bytes);
  if (!bytes.empty()) std::memcpy(bytes.data(), place_locked(at), bytes.size());
}

void MemoryDevice::flip(BandAddress at, std::size_t bit) {
  MutexLock lock(mu_);
  CHECK(geometry().has(at.band) && at.rba < geometry().blocks_of(at.band));
  CHECK(bit / 8 < geometry().block_bytes);
  place_locked(at)[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
}

void MemoryDevice::place_write_pointer(BandId band, std::uint32_t rba) {
  MutexLock lock(mu_);
  CHECK(geometry().has(band) && rba <= geometry().blocks_of(band) && !is_conventional(band));
  place_pointer_locked(band, rba);
  bands_[band.value].is_end_known = true;
}

void MemoryDevice::forget_write_pointers() {
  MutexLock lock(mu_);
  open_bands_.unseal_all();
  if (capabilities_.keeps_write_pointers) return;
  for (std::uint32_t i = 0; i < geometry().band_count(); ++i) {
    bands_[i].write_pointer = geometry().band_blocks[i];
    bands_[i].is_end_known = false;
  }
}

std::vector<std::uint32_t> MemoryDevice::written_since_reset(BandId band) {
  MutexLock lock(mu_);
  CHECK(geometry().has(band));
  std::vector<std::uint32_t> blocks;
  const std::vector<bool>& written = bands_[band.value].written;
  for (std::uint32_t rba = 0; rba < written.size(); ++rba) {
    if (written[rba]) blocks.push_back(rba);
  }
  return blocks;
}

void MemoryDevice::place_blocks(BandAddress at, std::span<const std::byte> bytes) {
  poke(at, bytes);
  MutexLock lock(mu_);
  if (capabilities_.keeps_write_pointers || is_conventional(at.band)) return;
  std::vector<bool>& written = bands_[at.band.value].written;
  written.resize(geometry().blocks_of(at.band));
  std::fill_n(written.begin() + at.rba, bytes.size() / geometry().block_bytes, true);
}

void MemoryDevice::on_overwrite(std::function<void(BandAddress)> report) {
  MutexLock lock(mu_);
  report_overwrite_ = std::move(report);
}

void MemoryDevice::retire(BandId band, BandCondition condition) {
  MutexLock lock(mu_);
  CHECK(geometry().has(band));
  CHECK(condition == BandCondition::kReadOnly || condition == BandCondition::kOffline);
  bands_[band.value].is_read_only = true;
  bands_[band.value].is_offline |= condition == BandCondition::kOffline;
}

std::uint64_t MemoryDevice::refused_begins() {
  MutexLock lock(mu_);
  return refused_begins_;
}

void MemoryDevice::offer_bands(std::uint32_t count) {
  MutexLock lock(mu_);
  offered_bands_ = count;
}

Result<> MemoryDevice::grow(std::uint64_t) {
  if (capabilities_.read_only) return fail(Errc::kDeviceReadOnly);
  MutexLock lock(mu_);
  if (offered_bands_ == 0) return fail(Errc::kGrowNoRoom);
  Geometry larger = geometry();
  const std::uint32_t count = larger.band_count() + std::exchange(offered_bands_, 0);
  larger.band_blocks.resize(count, larger.band_blocks.back());
  larger.band_kinds.resize(count, BandKind::kShingled);
  bands_.resize(count);
  if (!capabilities_.keeps_write_pointers) {
    for (std::uint32_t i = geometry().band_count(); i < count; ++i) {
      bands_[i].write_pointer = larger.band_blocks[i];  // W1
      bands_[i].is_end_known = false;
    }
  }
  geometry_.replace(std::move(larger));
  return ok();
}

}  // namespace lazyfs::device
