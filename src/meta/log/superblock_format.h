// The bytes of a superblock record: one block. docs/format.md section 2.
//
//   offset size field
//        0    4 magic             "LZSB"
//        4    4 crc32c            covers bytes [8, 4096)
//        8    4 version           6
//       12    4 flags             bit 0: the volume ended cleanly; bit 1, with bit 0: nothing was
//                                 written past the log's last part; bit 2, with bit 0: no data band
//                                 was written past its summary. Other bits are kept
//       16   16 uuid
//       32    8 sequence          +1 at every record; the highest valid one counts
//       40    8 band_count        of the device
//       48    8 super_bands       two band numbers of 4 bytes
//       56    8 created_seconds   since 1970
//       64    8 session           +1 at every opening for writing
//       72    8 session_start_seq newest transaction when the session began
//       80    8 durable_seq       a transaction that was durable when this was written
//       88    4 min_log_bands
//       92    4 log_band_count    at most 900
//       96    1 label_bytes       at most 63
//       97   63 label             UTF-8, then zeros
//      160    8 head_slot         where the last part of transaction durable_seq begins
//      168    4 head_rba
//      172    4 head_blocks       its size
//      176    4 compat            feature words
//      180    4 ro_compat
//      184    4 incompat
//      188    4 mounts            for writing, since mkfs
//      192    8 last_mount_seconds since 1970; 0: none
//      200    8 last_check_seconds since 1970; 0: none
//      208   16 new_uuid          given to the volume after mkfs; 0: none
//      224  272 room              written as 0, kept as read
//      496    4 log_bands[]       log_band_count of them, then zeros
//
// Magic, crc32c, version, uuid and sequence stay where they are in every version.
#pragma once

#include <span>

#include "base/types.h"
#include "meta/log/superblock.h"

namespace lazyfs::meta {

// Fills all of `to`. REQUIRES: label and log_bands are within their limits.
void encode(const Superblock& superblock, std::span<std::byte, kBlockBytes> to);

// Errors: kNoFilesystem when the magic is missing, kSuperblockVersion when an older lazyfs wrote
// it, kSuperblockNewer when a newer one did, kSuperblockBad.
Result<Superblock> decode_superblock(std::span<const std::byte, kBlockBytes> from);

// The sequence of a record of any version. REQUIRES: decode_superblock() did not return
// kNoFilesystem or kSuperblockBad.
std::uint64_t superblock_sequence(std::span<const std::byte, kBlockBytes> from);

// The tag by which nodes and checkpoints name their filesystem.
std::uint32_t fs_tag_of(const Uuid& uuid);

}  // namespace lazyfs::meta
