// Where everything lies in an EDI: bands, write pointer table, headers. Computed from the few
// values that a header holds; nothing here touches a disk.
//
// Linked bands are shown as one larger band that carries the number of the first; the others keep
// their numbers, have size 0 and are offline. So band numbers never move when bands are linked.
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

// What the header of an image says.
struct Header {
  std::uint32_t version = 1;
  std::uint64_t sequence = 1;  // of the header's copy; the newest wins (version 1)
  Uuid uuid{};                 // version 1
  std::uint32_t block_bytes = kBlockBytes;
  std::uint32_t table_before = 0;       // the table lies just before this band (version 1)
  std::vector<Zone> zones;              // version 0: exactly one
  std::vector<BandRange> conventional;  // rising, disjoint (version 1)
  std::vector<BandRange> links;         // rising, disjoint, of shingled bands (version 1)
  friend bool operator==(const Header&, const Header&) = default;
};

// Invariants:
//   L1  every band lies in [0, image_bytes), and no two bands, headers and tables overlap
//   L2  the bands of a link are neighbours on the disk: the table does not lie between them
struct Layout {
  Header header;
  device::Geometry geometry;               // as hosts see it: links joined
  std::vector<std::uint64_t> band_starts;  // byte offset of each band
  std::uint64_t table_start = 0;           // byte offset of the write pointer table
  std::uint64_t image_bytes = 0;

  bool is_linked_away(BandId band) const { return geometry.band_blocks[band.value] == 0; }
};

// The bytes of an image with this header, or a few less; without the memory that its layout takes:
// a small file may claim millions of bands. Errors: as lay_out().
Result<std::uint64_t> least_image_bytes(const Header& header);

// Takes memory for every band. Errors: kBadGeometry for values that no image can have.
Result<Layout> lay_out(Header header);

// Chooses where the table goes: before the band that holds the middle of the data, or before the
// link that it belongs to. Requires that the header's other values are right (else any place).
std::uint32_t central_band(const Header& header);

}  // namespace lazyfs::edi
