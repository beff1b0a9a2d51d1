#include "device/device.h"

#include <numeric>

namespace lazyfs::device {
namespace {

bool is_aligned(const std::byte* data, std::size_t size_bytes, std::uint32_t block_bytes) {
  const std::size_t alignment = block_bytes < kBlockBytes ? block_bytes : kBlockBytes;
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0 && size_bytes % block_bytes == 0;
}

Result<> check_range(const Geometry& geometry, BandAddress at, std::size_t length_bytes) {
  const std::uint64_t blocks = length_bytes / geometry.block_bytes;
  if (at.rba + blocks > geometry.blocks_of(at.band)) return fail(Errc::kPastBandEnd);
  return ok();
}

}  // namespace

std::uint64_t Geometry::total_blocks() const {
  return std::accumulate(band_blocks.begin(), band_blocks.end(), std::uint64_t{0});
}

std::array<BandId, 2> Geometry::first_shingled() const {
  std::array<BandId, 2> found{BandId{0}, BandId{1}};
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < band_count() && count < found.size(); ++i) {
    const bool is_shingled = band_kinds[i] == BandKind::kShingled && band_blocks[i] > 0;
    if (is_shingled) found[count++] = BandId{i};
  }
  return count == found.size() ? found : std::array{BandId{0}, BandId{1}};
}

Result<> Device::reset_all() {
  for (std::uint32_t i = 0; i < geometry().band_count(); ++i) {
    const bool is_shingled = geometry().band_kinds[i] == BandKind::kShingled;
    if (is_shingled && geometry().band_blocks[i] > 0) TRY(reset(BandId{i}));
  }
  return ok();
}

std::string to_string(BandKind kind) {
  switch (kind) {
    case BandKind::kShingled:
      return "shingled";
    case BandKind::kConventional:
      return "conventional";
  }
  return "unknown";
}

std::string to_string(BandCondition condition) {
  switch (condition) {
    case BandCondition::kEmpty:
      return "empty";
    case BandCondition::kOpen:
      return "open";
    case BandCondition::kFull:
      return "full";
    case BandCondition::kReadOnly:
      return "read-only";
    case BandCondition::kOffline:
      return "offline";
  }
  return "unknown";
}

BandCondition condition_of(std::uint32_t write_pointer, std::uint32_t blocks) {
  if (write_pointer == 0) return BandCondition::kEmpty;
  return write_pointer == blocks ? BandCondition::kFull : BandCondition::kOpen;
}

std::size_t bytes_of(std::span<const Piece> pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), std::size_t{0},
                         [](std::size_t sum, const Piece& p) { return sum + p.size(); });
}

Result<> check_read(const Geometry& geometry, BandAddress from, std::size_t length_bytes,
                    std::uint32_t write_pointer) {
  if (!geometry.has(from.band)) return fail(Errc::kBadBand);
  if (length_bytes % geometry.block_bytes != 0) return fail(Errc::kBadAlignment);
  TRY(check_range(geometry, from, length_bytes));
  if (from.rba + length_bytes / geometry.block_bytes > write_pointer) {
    return fail(Errc::kPastWritePointer);
  }
  return ok();
}

Result<> check_read(const Geometry& geometry, BandAddress from, std::span<const std::byte> to,
                    std::uint32_t write_pointer) {
  if (!geometry.has(from.band)) return fail(Errc::kBadBand);
  if (!is_aligned(to.data(), to.size(), geometry.block_bytes)) return fail(Errc::kBadAlignment);
  return check_read(geometry, from, to.size(), write_pointer);
}

Result<> check_append(const Geometry& geometry, BandAddress to, std::span<const Piece> pieces,
                      std::uint32_t write_pointer) {
  if (!geometry.has(to.band)) return fail(Errc::kBadBand);
  for (const Piece& piece : pieces) {
    if (!is_aligned(piece.data(), piece.size(), geometry.block_bytes)) {
      return fail(Errc::kBadAlignment);
    }
  }
  const bool conventional = geometry.band_kinds[to.band.value] == BandKind::kConventional;
  if (!conventional && to.rba != write_pointer) return fail(Errc::kNotAtWritePointer);
  return check_range(geometry, to, bytes_of(pieces));
}

}  // namespace lazyfs::device
