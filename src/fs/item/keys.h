// Keys of the items (docs/format.md, section 5).
#pragma once

#include <cstdint>

#include "base/types.h"
#include "meta/tree/key.h"

namespace lazyfs::fs {

// Kinds of items of one inode; the owner is the inode number (1 .. kMaxInode).
enum class Kind : std::uint8_t {
  kInode = 1,       // offset 0: InodeRecord
  kDentryName = 2,  // offset: hash of the name: the entries with that hash
  kDentrySeq = 3,   // offset: cookie: one entry; readdir order
  kSymlink = 4,     // offset: number of the piece: kMaxValueBytes of the target each
  kXattrName = 5,   // offset: id: name and length of the value
  kXattrValue = 6,  // offset: id << 8 | piece: kMaxValueBytes of the value each
  kInline = 7,      // offset: 4 * block + piece: contents of one block: inline_key()
  kExtent = 8,      // offset: first file block: ExtentRecord or ReferenceRecord
  kReferenceCount = 9,  // of a shared-extent inode; offset: first block: ReferenceCountRecord
  // Items of the volume (owner kVolumeOwner).
  kCounters = 16,     // offset 0: CounterRecord
  kOrphan = 17,       // offset: inode: OrphanRecord
  kBandSummary = 18,  // offset: band: four 64-bit counters, changed by Batch::add
  kLostRange = 19,    // offset: first_lost_range() or more: LostRangeRecord; only while a repair is
                      // unfinished
  // Items of a band (owner band_owner(band)).
  kAppendRecord = 24,  // offset: RBA: AppendRecord
  kDeleteRecord = 25,  // offset: RBA of the first block that died (each dies once): DeleteRecord
};

inline constexpr std::uint64_t kMaxInode = (std::uint64_t{1} << 62) - 1;
inline constexpr std::uint64_t kVolumeOwner = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kBandOwnerBase = kVolumeOwner + (std::uint64_t{1} << 32);

// The numbers of the ranges that a session finds to be lost begin here.
inline constexpr std::uint64_t kLostRangesASession = std::uint64_t{1} << 32;
constexpr std::uint64_t first_lost_range(std::uint64_t session) {
  return session * kLostRangesASession;
}

constexpr std::uint64_t band_owner(BandId band) { return kBandOwnerBase + band.value; }
constexpr meta::Key key_of(std::uint64_t owner, Kind kind, std::uint64_t offset = 0) {
  return {owner, static_cast<std::uint8_t>(kind), offset};
}
constexpr meta::Key key_of(InodeNo inode, Kind kind, std::uint64_t offset = 0) {
  return key_of(inode.value, kind, offset);
}
constexpr meta::Key key_of(BandId band, Kind kind, std::uint64_t offset = 0) {
  return key_of(band_owner(band), kind, offset);
}

}  // namespace lazyfs::fs
