// The superblock: what has to be known before the log can be read. It is kept as an append-only log
// in two bands that mirror each other; the newest valid record wins. docs/format.md section 2.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "device/device.h"

namespace lazyfs::meta {

using Uuid = std::array<std::uint8_t, 16>;

struct Superblock {
  Uuid uuid{};
  std::string label;             // at most kMaxLabelBytes, UTF-8
  std::uint64_t sequence = 0;    // +1 at every record written
  std::uint64_t band_count = 0;  // of the device; a mismatch is kSuperblockBad
  std::array<BandId, 2> super_bands{BandId{0}, BandId{1}};
  std::vector<BandId> log_bands;      // every band that belongs to the metadata log
  std::uint64_t created_seconds = 0;  // mkfs time

  // The rest is the store's own; format() sets it.
  std::uint32_t min_log_bands = 0;      // the log never shrinks below; format(): what it began with
  std::uint64_t session = 0;            // +1 at every opening for writing
  std::uint64_t session_start_seq = 0;  // newest transaction when the session began
  std::uint64_t durable_seq = 0;        // a transaction that was durable when this was written
  std::uint64_t head_slot = 0;          // its last part: slot of the band, first block, blocks
  std::uint32_t head_rba = 0;
  std::uint32_t head_blocks = 0;
  friend bool operator==(const Superblock&, const Superblock&) = default;
};

inline constexpr std::size_t kMaxLabelBytes = 63;
inline constexpr std::size_t kMaxLogBands = 980;  // as many as one record holds

// Reads the newest valid superblock from the two super bands (0 and 1).
// Errors: kNoFilesystem when neither band holds a record at all, kSuperblockBad when records are
// there but none is valid, kSuperblockVersion, or what the device returns.
Result<Superblock> read_superblock(device::Device& device);

}  // namespace lazyfs::meta
