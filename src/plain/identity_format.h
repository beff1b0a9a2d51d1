// The identification block of a plain block device: what the volume is, and where its bands lie.
// One block of 4096 bytes, near the start of the device; a copy lies near the end of the volume.
// docs/format.md section 1.
//
//   offset size field
//        0    8 magic             "LAZYFS", 0, 1
//        8    4 crc32c            covers bytes [12, 4096)
//       12    4 compat            features that a program may ignore
//       16    4 ro_compat         features that a program may ignore if it only reads
//       20    4 incompat          features that a program must know
//       24    4 block_bytes
//       28    4 room
//       32   16 uuid              of the filesystem
//       48   64 label             UTF-8, then zeros; at most 63 bytes
//      112    8 volume_bytes      size of the device when the volume was made or grown
//      120    8 band_bytes        of each band; a multiple of block_bytes
//      128    4 band_count        at most 2^24
//      132    8 super_bands       two band numbers of 4 bytes
//      140    4 room
//      144    8 created_seconds   since 1970
//      152    8 generation        +1 at every rewrite, from 1
//      160 3936 room
//
// Room is 0 today. A program that rewrites the block keeps the room as it is, unless it knows the
// feature that says what the room means.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace lazyfs::plain {

inline constexpr std::uint64_t kEndBytes = std::uint64_t{1} << 20;  // before and after the bands
inline constexpr std::uint64_t kIdentityAt = 65536;  // in the first MiB, and in the last one
inline constexpr std::size_t kMaxLabelBytes = 63;
// The features that this version knows: none yet.
inline constexpr std::uint32_t kKnownRoCompat = 0, kKnownIncompat = 0;
inline constexpr std::uint32_t kMaxBands = std::uint32_t{1} << 24;

struct Identity {
  std::uint32_t compat = 0, ro_compat = 0, incompat = 0;
  std::uint32_t block_bytes = kBlockBytes;
  std::array<std::uint8_t, 16> uuid{};
  std::string label;
  std::uint64_t volume_bytes = 0;
  std::uint64_t band_bytes = 0;
  std::uint32_t band_count = 0;
  std::array<BandId, 2> super_bands{};
  std::uint64_t created_seconds = 0;
  std::uint64_t generation = 0;
  // The rest of the block, for later features; encode() writes it as it was read.
  std::array<std::byte, 4> room_after_block_bytes{}, room_after_super_bands{};
  std::array<std::byte, 3936> room{};
  friend bool operator==(const Identity&, const Identity&) = default;
};

// Fills all of `to`. REQUIRES: the label has at most kMaxLabelBytes and no zero bytes.
void encode(const Identity& identity, std::span<std::byte, kBlockBytes> to);

// Does not check features: the caller refuses those that it cannot handle.
// Errors: kIdentityMissing without the magic, kIdentityBad for a wrong checksum or for values that
// no volume can have. On success bands and identification blocks lie inside volume_bytes, apart
// from one another.
Result<Identity> decode_identity(std::span<const std::byte, kBlockBytes> from);

// Where the last whole MiB of a volume begins: bands end there at the latest.
// REQUIRES: volume_bytes >= 2 * kEndBytes.
constexpr std::uint64_t last_mib_at(std::uint64_t volume_bytes) {
  return volume_bytes / kEndBytes * kEndBytes - kEndBytes;
}
// Where the copy of the identification block lies. REQUIRES: volume_bytes >= 2 * kEndBytes.
constexpr std::uint64_t copy_at(std::uint64_t volume_bytes) {
  return last_mib_at(volume_bytes) + kIdentityAt;
}
// The first byte of band 0.
constexpr std::uint64_t bands_at() { return kEndBytes; }
// Most bands of this size that a volume has room for. REQUIRES: band_bytes > 0.
constexpr std::uint64_t bands_in(std::uint64_t volume_bytes, std::uint64_t band_bytes) {
  return volume_bytes < 2 * kEndBytes ? 0
                                      : (last_mib_at(volume_bytes) - bands_at()) / band_bytes;
}

}  // namespace lazyfs::plain
