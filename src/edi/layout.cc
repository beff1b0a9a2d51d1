#include "edi/layout.h"

#include <bit>

#include "edi/format0.h"
#include "edi/format1.h"

namespace lazyfs::edi {
namespace {

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

bool are_disjoint_and_rising(const std::vector<BandRange>& ranges, std::uint32_t bands) {
  std::uint64_t free_from = 0;
  for (const auto& [first, last] : ranges) {
    if (first < free_from || last < first || last >= bands) return false;
    free_from = std::uint64_t{last} + 1;
  }
  return true;
}

// Returns the number of bands, or 0 if the zones are impossible.
std::uint32_t bands_of(const Header& header) {
  std::uint64_t bands = 0, blocks = 0;
  for (const Zone& zone : header.zones) {
    if (zone.count == 0 || zone.count > kMaxBands || zone.band_blocks == 0) return 0;
    bands += zone.count;
    blocks += std::uint64_t{zone.count} * zone.band_blocks;
    if (bands > kMaxBands || blocks > kMaxImageBytes / header.block_bytes) return 0;
  }
  return static_cast<std::uint32_t>(bands);
}

bool is_possible(const Header& header, std::uint32_t bands) {
  if (!are_disjoint_and_rising(header.conventional, bands)) return false;
  if (!are_disjoint_and_rising(header.links, bands)) return false;
  if (header.version == 0) {
    return header.zones.size() == 1 && header.conventional.empty() && header.links.empty();
  }
  return header.table_before <= bands && entries_of(header) <= kMaxHeaderEntries;
}

// Returns the number of bands if each value is possible. Does not check values against each other.
Result<std::uint32_t> checked_bands(const Header& header) {
  if (header.version > 1) return fail(Errc::kEdiBadVersion);
  if (!std::has_single_bit(header.block_bytes) || header.block_bytes < kMinBlockBytes ||
      header.block_bytes > kMaxBlockBytes) {
    return fail(Errc::kBadGeometry);
  }
  const std::uint32_t bands = bands_of(header);
  if (bands == 0 || !is_possible(header, bands)) return fail(Errc::kBadGeometry);
  return bands;
}

Result<> join_links(const Header& header, device::Geometry& geometry) {
  for (const auto& [first, last] : header.links) {
    if (first < header.table_before && header.table_before <= last) {  // L2
      return fail(Errc::kBadGeometry);
    }
    std::uint64_t blocks = 0;
    for (std::uint32_t band = first; band <= last; ++band) {
      if (geometry.band_kinds[band] == device::BandKind::kConventional) {
        return fail(Errc::kBadGeometry);
      }
      blocks += geometry.band_blocks[band];
      geometry.band_blocks[band] = 0;
    }
    if (first == last || blocks > UINT32_MAX) return fail(Errc::kBadGeometry);
    geometry.band_blocks[first] = static_cast<std::uint32_t>(blocks);
  }
  return ok();
}

}  // namespace

std::uint32_t central_band(const Header& header) {
  std::uint64_t total = 0;
  for (const Zone& zone : header.zones) total += std::uint64_t{zone.count} * zone.band_blocks;
  std::uint64_t before = 0;
  std::uint32_t band = 0;
  for (const Zone& zone : header.zones) {
    if (zone.band_blocks == 0) return 0;
    const std::uint64_t blocks = std::uint64_t{zone.count} * zone.band_blocks;
    if (before + blocks > total / 2) {
      band += static_cast<std::uint32_t>((total / 2 - before) / zone.band_blocks);
      break;
    }
    before += blocks;
    band += zone.count;
  }
  for (const auto& [first, last] : header.links) {
    if (first < band && band <= last) return first;
  }
  return band;
}

Result<std::uint64_t> least_image_bytes(const Header& header) {
  ASSIGN_OR_RETURN(const std::uint32_t bands, checked_bands(header));
  std::uint64_t bytes = header.version == 0
                            ? kHeader0Bytes + std::uint64_t{4} * bands
                            : std::uint64_t{kHeaderCopies} * kHeaderAreaBytes + table_bytes(bands);
  for (const Zone& zone : header.zones) {
    bytes += std::uint64_t{zone.count} * zone.band_blocks * header.block_bytes;
  }
  return bytes;
}

Result<Layout> lay_out(Header header) {
  ASSIGN_OR_RETURN(const std::uint32_t bands, checked_bands(header));
  Layout layout;
  layout.geometry.block_bytes = header.block_bytes;
  for (const Zone& zone : header.zones) {
    layout.geometry.band_blocks.insert(layout.geometry.band_blocks.end(), zone.count,
                                       zone.band_blocks);
  }
  layout.geometry.band_kinds.assign(bands, device::BandKind::kShingled);
  for (const auto& [first, last] : header.conventional) {
    for (std::uint32_t band = first; band <= last; ++band) {
      layout.geometry.band_kinds[band] = device::BandKind::kConventional;
    }
  }
  const bool is_old = header.version == 0;
  std::uint64_t at = is_old ? round_up(kHeader0Bytes + std::uint64_t{4} * bands, kMaxBlockBytes)
                            : std::uint64_t{kHeaderCopies} * kHeaderAreaBytes;
  layout.table_start = is_old ? 0 : at;
  for (std::uint32_t band = 0; band <= bands; ++band) {
    if (!is_old && band == header.table_before) {
      layout.table_start = round_up(at, kMaxBlockBytes);
      at = round_up(layout.table_start + table_bytes(bands), kMaxBlockBytes);
    }
    if (band == bands) break;
    layout.band_starts.push_back(at);
    at += std::uint64_t{layout.geometry.band_blocks[band]} * header.block_bytes;
  }
  layout.image_bytes = round_up(at, kBlockBytes);
  TRY(join_links(header, layout.geometry));
  layout.geometry.super_bands = layout.geometry.first_shingled();
  layout.header = std::move(header);
  return layout;
}

}  // namespace lazyfs::edi
