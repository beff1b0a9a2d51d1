// The bytes of a superblock record: one block. docs/format.md section 2.
//
//   offset size field
//        0    4 magic             "LZSB"
//        4    4 crc32c            covers bytes [8, 4096)
//        8    4 version           4; 2 and 3 are read as well (a log without cold bands; no blocks
//                                 that files share)
//       12    4 reserved
//       16   16 uuid
//       32    8 sequence          +1 at every record; the highest valid one counts
//       40    8 band_count        of the device
//       48    8 super_bands       two band numbers of 4 bytes
//       56    8 created_seconds   since 1970
//       64    8 session           +1 at every opening for writing
//       72    8 session_start_seq newest transaction when the session began
//       80    8 durable_seq       a transaction that was durable when this was written
//       88    4 min_log_bands
//       92    4 log_band_count    at most 980
//       96    1 label_bytes       at most 63
//       97   63 label             UTF-8, then zeros
//      160    8 head_slot         where the last part of transaction durable_seq begins
//      168    4 head_rba
//      172    4 head_blocks       its size
//      176    4 log_bands[]       log_band_count of them, then zeros
#pragma once

#include <span>

#include "base/types.h"
#include "meta/log/superblock.h"

namespace lazyfs::meta {

// Fills all of `to`. REQUIRES: label and log_bands are within their limits.
void encode(const Superblock& superblock, std::span<std::byte, kBlockBytes> to);

// Errors: kNoFilesystem when the magic is missing, kSuperblockVersion, kSuperblockBad.
Result<Superblock> decode_superblock(std::span<const std::byte, kBlockBytes> from);

// The tag by which nodes and checkpoints name their filesystem.
std::uint32_t fs_tag_of(const Uuid& uuid);

}  // namespace lazyfs::meta
