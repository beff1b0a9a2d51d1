#include "device/memory.h"

#include <cstring>

namespace lazyfs::device {

MemoryDevice::MemoryDevice(Geometry geometry, Capabilities capabilities)
    : geometry_(std::move(geometry)), capabilities_(capabilities), bands_(geometry_.band_count()) {
  for (std::uint32_t i = 0; i < geometry_.band_count(); ++i) {
    if (is_conventional(BandId{i})) bands_[i].write_pointer = geometry_.band_blocks[i];
  }
}

std::unique_ptr<MemoryDevice> MemoryDevice::uniform(std::uint32_t bands,
                                                    std::uint32_t band_blocks) {
  Geometry geometry;
  geometry.band_blocks.assign(bands, band_blocks);
  geometry.band_kinds.assign(bands, BandKind::kShingled);
  return std::make_unique<MemoryDevice>(std::move(geometry));
}

Result<> MemoryDevice::read(BandAddress from, std::span<std::byte> to) {
  MutexLock lock(mu_);
  if (!geometry_.has(from.band)) return fail(Errc::kBadBand);
  Band& band = bands_[from.band.value];
  TRY(check_read(geometry_, from, to.size(), band.write_pointer));
  if (to.empty()) return ok();
  if (!band.bytes) {
    std::memset(to.data(), 0, to.size());
    return ok();
  }
  std::memcpy(to.data(), band.bytes.data() + std::size_t{from.rba} * geometry_.block_bytes,
              to.size());
  return ok();
}

Result<> MemoryDevice::append(BandAddress to, std::span<const Piece> pieces) {
  MutexLock lock(mu_);
  if (!geometry_.has(to.band)) return fail(Errc::kBadBand);
  Band& band = bands_[to.band.value];
  TRY(check_append(geometry_, to, pieces, band.write_pointer));
  if (!band.bytes) {
    band.bytes = AlignedBuffer::zeroed(std::size_t{geometry_.blocks_of(to.band)} *
                                       geometry_.block_bytes);
  }
  std::byte* at = band.bytes.data() + std::size_t{to.rba} * geometry_.block_bytes;
  for (const Piece& piece : pieces) {
    if (!piece.empty()) std::memcpy(at, piece.data(), piece.size());
    at += piece.size();
  }
  if (!is_conventional(to.band)) {
    band.write_pointer += static_cast<std::uint32_t>(bytes_of(pieces) / geometry_.block_bytes);
  }
  return ok();
}

Result<std::uint32_t> MemoryDevice::write_pointer(BandId band) {
  MutexLock lock(mu_);
  if (!geometry_.has(band)) return fail(Errc::kBadBand);
  return bands_[band.value].write_pointer;
}

Result<> MemoryDevice::set_write_pointer(BandId band, std::uint32_t rba) {
  MutexLock lock(mu_);
  if (!geometry_.has(band)) return fail(Errc::kBadBand);
  if (!capabilities_.set_write_pointer || is_conventional(band)) return fail(Errc::kUnsupported);
  if (rba > bands_[band.value].write_pointer) return fail(Errc::kPastWritePointer);
  bands_[band.value].write_pointer = rba;
  return ok();
}

Result<> MemoryDevice::reset(BandId band) {
  MutexLock lock(mu_);
  if (!geometry_.has(band)) return fail(Errc::kBadBand);
  if (is_conventional(band)) return fail(Errc::kUnsupported);
  bands_[band.value] = Band{};
  return ok();
}

Result<BandReport> MemoryDevice::report(BandId band) {
  MutexLock lock(mu_);
  if (!geometry_.has(band)) return fail(Errc::kBadBand);
  BandReport report{.kind = geometry_.band_kinds[band.value],
                    .blocks = geometry_.blocks_of(band),
                    .write_pointer = bands_[band.value].write_pointer};
  report.condition = report.write_pointer == 0               ? BandCondition::kEmpty
                     : report.write_pointer == report.blocks ? BandCondition::kFull
                                                             : BandCondition::kOpen;
  return report;
}

}  // namespace lazyfs::device
