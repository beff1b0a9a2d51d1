// The superblock: what lazyfs must know before it can read the log. It is an append-only log of
// records in two bands that mirror each other; the newest valid record wins. docs/format.md section
// 2.
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

// What a volume uses beyond the features that every lazyfs of this superblock version knows. A
// lazyfs ignores a bit of `compat` that it does not know. With such a bit of `ro_compat` it opens
// the volume read-only; with one of `incompat` it does not open it. Bits are kept when a record is
// rewritten.
struct Features {
  std::uint32_t compat = 0;
  std::uint32_t ro_compat = 0;
  std::uint32_t incompat = 0;
  friend bool operator==(const Features&, const Features&) = default;
};
inline constexpr Features kKnownFeatures{};

// The format that this lazyfs makes, and the only one that it opens.
inline constexpr std::uint32_t kSuperblockFormat = 6;

inline constexpr std::size_t kSuperblockRoomBytes = 272;

struct Superblock {
  Uuid uuid{};                   // in every block of the log; never changes
  std::string label;             // at most kMaxLabelBytes, UTF-8
  std::uint64_t sequence = 0;    // +1 at every record written
  std::uint64_t band_count = 0;  // of the device, which may have grown; less is kSuperblockBad
  std::array<BandId, 2> super_bands{BandId{0}, BandId{1}};
  std::vector<BandId> log_bands;      // every band that belongs to the metadata log
  std::uint64_t created_seconds = 0;  // mkfs time
  Features features;

  // The rest is the store's own; format() sets it.
  std::uint32_t min_log_bands = 0;      // the log never shrinks below; format(): what it began with
  std::uint64_t session = 0;            // +1 at every opening for writing
  std::uint64_t session_start_seq = 0;  // newest transaction when the session began
  std::uint64_t durable_seq = 0;        // a transaction that was durable when this was written
  std::uint64_t head_slot = 0;          // its last part: slot of the band, first block, blocks
  std::uint32_t head_rba = 0;
  std::uint32_t head_blocks = 0;

  // kCleanEnd, a bit of `flags`: the log ends with its last part, which the head fields name, and
  // nothing was written to any band since. The record that begins a session clears it, the record
  // of a clean end sets it.
  // kHeadOpen, only together with kCleanEnd: since the reset of the last part's band nothing was
  // written past that part. So the next session may continue there on a device that keeps no write
  // pointers. A session after a crash that writes nothing to the log ends without this bit.
  static constexpr std::uint32_t kCleanEnd = 1, kHeadOpen = 2;
  // kDataEndsKnown, only together with kCleanEnd: since its last reset no data band was written
  // past the end in its summary. A session that does not write to data bands keeps this bit.
  static constexpr std::uint32_t kDataEndsKnown = 4;
  std::uint32_t flags = 0;               // other bits are kept
  std::uint32_t mounts = 0;              // for writing, since mkfs
  std::uint64_t last_mount_seconds = 0;  // time of the last mount for writing; 0: none
  std::uint64_t last_check_seconds = 0;  // of the last fsck with a repair; 0: none
  Uuid new_uuid{};  // the volume's name for users, if it was given one after mkfs; 0: none
  std::array<std::byte, kSuperblockRoomBytes> room{};  // kept, whatever it means

  // What users and other programs see.
  const Uuid& volume_uuid() const { return new_uuid == Uuid{} ? uuid : new_uuid; }
  bool ended_cleanly() const { return (flags & kCleanEnd) != 0; }
  bool head_is_open() const { return ended_cleanly() && (flags & kHeadOpen) != 0; }
  void set_clean_end(bool clean, bool head_is_open = false) {
    flags &= ~(kCleanEnd | kHeadOpen);
    if (clean) flags |= kCleanEnd | (head_is_open ? kHeadOpen : 0);
  }
  bool data_ends_known() const { return (flags & kDataEndsKnown) != 0; }
  void set_data_ends_known(bool known) {
    flags = (flags & ~kDataEndsKnown) | (known ? kDataEndsKnown : 0);
  }
  friend bool operator==(const Superblock&, const Superblock&) = default;
};

inline constexpr std::size_t kMaxLabelBytes = 63;
inline constexpr std::size_t kMaxLogBands = 900;  // as many as one record holds

// Reads the newest valid superblock from the two super bands, which the device's geometry names.
// Errors: kNoFilesystem when neither band holds a record at all, kSuperblockBad when records exist
// but none is valid, kSuperblockVersion when an older lazyfs wrote them, kSuperblockNewer when a
// newer one wrote the newest, or what the device returns.
Result<Superblock> read_superblock(device::Device& device);

}  // namespace lazyfs::meta
