// Computes the offsets of bands, write pointer table and headers in an EDI from the values of its
// header. Does no I/O.
//
// Linked bands act as one larger band with the number of the first band. The other bands keep their
// numbers, have size 0 and are offline, so a link never renumbers bands.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"
#include "device/device.h"

namespace lazyfs::edi {

inline constexpr std::uint32_t kMagic = 0x0E5D1000;  // "Emulated 5hingled Disk 1mage"
inline constexpr std::uint32_t kMinBlockBytes = 512;
inline constexpr std::uint32_t kMaxBlockBytes = 65536;
inline constexpr std::uint32_t kMaxBands = 1u << 24;
inline constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 60;

// `count` neighbouring bands of one size.
struct Zone {
  std::uint32_t count = 0;
  std::uint32_t band_blocks = 0;
  friend bool operator==(const Zone&, const Zone&) = default;
};

using BandRange = std::pair<std::uint32_t, std::uint32_t>;  // first and last band, inclusive
using Uuid = std::array<std::byte, 16>;

// The contents of an image's header.
struct Header {
  std::uint32_t version = 1;
  std::uint64_t sequence = 1;  // of this copy; the copy with the highest one counts (version 1)
  Uuid uuid{};                 // version 1
  std::uint32_t block_bytes = kBlockBytes;
  std::uint32_t table_before = 0;       // the table ends where this band starts (version 1)
  std::vector<Zone> zones;              // version 0: exactly one
  std::vector<BandRange> conventional;  // rising, disjoint (version 1)
  std::vector<BandRange> links;         // rising, disjoint, of shingled bands (version 1)
  friend bool operator==(const Header&, const Header&) = default;
};

// Invariants:
//   L1  every band is within [0, image_bytes); bands, headers and table do not overlap
//   L2  the bands of a link are adjacent on the disk: the table is not between them
struct Layout {
  Header header;
  device::Geometry geometry;               // as hosts see it: a link is one band
  std::vector<std::uint64_t> band_starts;  // byte offset of each band
  std::uint64_t table_start = 0;           // byte offset of the write pointer table
  std::uint64_t image_bytes = 0;

  bool is_linked_away(BandId band) const { return geometry.band_blocks[band.value] == 0; }
};

// Returns a lower bound of the size of an image with this header. Takes no memory for the bands: a
// damaged header of a small file may claim millions of bands. Errors: as lay_out().
Result<std::uint64_t> least_image_bytes(const Header& header);

// Takes memory for every band. Error: kBadGeometry for values that no image can have.
Result<Layout> lay_out(Header header);

// Returns the band that the table precedes: the band with the middle of the data, or the first band
// of its link. REQUIRES: the header's other values are valid; otherwise the result is unspecified.
std::uint32_t central_band(const Header& header);

}  // namespace lazyfs::edi
