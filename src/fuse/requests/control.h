// Control requests: ioctls on any open file or directory of a mount, usually its root. They need no
// socket and no second permission system. "Owner": root, and the user that the daemon runs as.
// lazyfsctl and remounts send them; numbers never change
// their meaning.
#pragma once

#include <sys/ioctl.h>

#include <cstddef>
#include <cstdint>

namespace lazyfs::fuse {

// One piece of the statistics, a JSON text that may be longer than an ioctl can carry.
//
//   offset size field
//        0    8 number    in: 0 asks for a new text, else the text to continue; out: its number
//        8    4 offset    in: where in the text to continue
//       12    4 length    out: bytes of text that follow
//       16    4 total     out: bytes of the whole text
//       20    4 reserved  0
//       24    - text
struct StatsPiece {
  std::uint64_t number = 0;
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
  std::uint32_t total = 0;
  std::uint32_t reserved = 0;
  char text[16000] = {};
};
static_assert(sizeof(StatsPiece) == 16024, "an ioctl carries less than 16 KiB");

inline constexpr unsigned long kStatsRequest = _IOWR(0xED, 1, StatsPiece);  // any user
// As syncfs(2). The kernel does not pass syncfs(2) on from mounts of image files, nor, before
// Linux 6.18, from other mounts. Any user.
inline constexpr unsigned long kSyncRequest = _IO(0xED, 3);
// One step of reading all file contents and verifying them; owner only.
//
//   offset size field
//        0    8 inode       in: where to begin (first 1, 0); out: where to continue, 0 at the end
//        8    8 file_block
//       16    8 blocks      out: blocks read by this step
//       24    4 damaged     out: entries of `found`
//       28    4 reserved    0
//       32    - found
struct ScrubPiece {
  struct Found {
    std::uint64_t inode = 0;
    std::uint64_t offset = 0;  // of the damaged block in the file
    std::uint32_t what = kUnread;
    std::uint32_t reserved = 0;
  };
  static constexpr std::uint32_t kUnread = 0;        // the block cannot be read
  static constexpr std::uint32_t kBadChecksum = 1;   // its checksum is wrong
  static constexpr std::uint32_t kLostMetadata = 2;  // metadata of inodes `inode` to `offset`
  static constexpr std::uint32_t kMaxFound = 256;
  std::uint64_t inode = 1;
  std::uint64_t file_block = 0;
  std::uint64_t blocks = 0;
  std::uint32_t damaged = 0;
  std::uint32_t reserved = 0;
  Found found[kMaxFound] = {};
};
static_assert(sizeof(ScrubPiece) == 32 + 24 * ScrubPiece::kMaxFound);
inline constexpr unsigned long kScrubRequest = _IOWR(0xED, 4, ScrubPiece);

// 5 is retired: it asked whether the daemon serves writers. 6, 7 and 11 are retired: they changed
// one mount option each.
// Which changes are durable before their request is answered.
enum class SyncChoice : std::uint32_t {
  kNone = 0,
  kNames = 1,  // mount option dirsync: names made, moved or removed
  kAll = 2,    // mount option sync
};
// What the volume is (fs::to_json() of volume_info.h), a JSON text that a zero byte ends. Any user.
struct InfoText {
  char text[8000] = {};
};
inline constexpr unsigned long kInfoRequest = _IOR(0xED, 8, InfoText);
// FS_IOC_GETFSLABEL of linux/fs.h: the label, zeros to the end. Any user.
inline constexpr std::size_t kLabelBytes = 256;
inline constexpr unsigned long kLabelRequest = _IOR(0x94, 49, char[kLabelBytes]);
// FS_IOC_GETFSUUID. From 6.9 on Linux answers this request itself: a mount by FUSE has no UUID
// there (ENOTTY). Older kernels pass the request on. Any user.
struct UuidAnswer {
  std::uint8_t length = 0;
  std::uint8_t uuid[16] = {};
};
inline constexpr unsigned long kUuidRequest = _IOR(0x15, 0, UuidAnswer);
// The answer of requests that change how a volume is mounted: the reason why it was not changed;
// empty when it was.
struct ChangeAnswer {
  char reason[256] = {};
};
// Before a mount becomes writable: a volume that was mounted for reading opens its device for
// writing and is recovered; root only.
inline constexpr unsigned long kMakeWritableRequest = _IOR(0xED, 9, ChangeAnswer);
// Grows a volume (fs::Volume::grow()); root only.
//
//   offset size field
//        0    8 bytes         in: the size that an image file is given first; 0: it keeps its own
//        8    8 total_before  out: bytes of all bands
//       16    8 total_after
//       24    4 bands_before  out
//       28    4 bands_after
//       32  256 reason        out: why the volume has not grown; empty when it has
struct GrowRequest {
  std::uint64_t bytes = 0;
  std::uint64_t total_before = 0, total_after = 0;
  std::uint32_t bands_before = 0, bands_after = 0;
  char reason[256] = {};
};
static_assert(sizeof(GrowRequest) == 288);
inline constexpr unsigned long kGrowRequest = _IOWR(0xED, 10, GrowRequest);
// FITRIM of linux/fs.h, with its struct fstrim_range: discards free bands; root only.
struct TrimPiece {
  std::uint64_t start = 0;
  std::uint64_t length = 0;  // out: bytes discarded
  std::uint64_t min_bytes = 0;
};
inline constexpr unsigned long kTrimRequest = _IOWR('X', 121, TrimPiece);
static_assert(kTrimRequest == 0xC0185879);
// After a mount has become read-only: the volume makes everything durable, and then writes nothing
// any more; root only.
inline constexpr unsigned long kMakeReadOnlyRequest = _IOR(0xED, 12, ChangeAnswer);
// Changes mount options; root only. All of them are changed, or none.
struct OptionsChange {
  char options[4000] = {};  // in: a list as mount(8) has it, ended by a zero byte
  char reason[256] = {};    // out: why they cannot be changed; empty when they were
};
inline constexpr unsigned long kChangeOptionsRequest = _IOWR(0xED, 13, OptionsChange);
// A step of cleaning bands of which at least `dead_percent` of the written blocks are dead; owner
// only.
//
//   offset size field
//        0    4 dead_percent in: 1 to 100
//        4    4 what         in: kEstimate, which changes nothing; kPrepare, which deletes and
//                            writes back first, and estimates; kStep
//        8    8 bands        out: to be cleaned at most; kStep: cleaned
//       16    8 blocks       out: to be moved at most; kStep: moved
//       24    8 gain         out: blocks to be gained at most; kStep: bands freed
//       32    4 is_done      out: of kStep: 1 when no band remains
//       36    4 reserved     0
struct CleanPiece {
  static constexpr std::uint32_t kEstimate = 0, kPrepare = 1, kStep = 2;
  std::uint32_t dead_percent = 0;
  std::uint32_t what = kEstimate;
  std::uint64_t bands = 0, blocks = 0, gain = 0;
  std::uint32_t is_done = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(CleanPiece) == 40);
inline constexpr unsigned long kCleanRequest = _IOWR(0xED, 14, CleanPiece);
// FS_IOC_SHUTDOWN, as xfs, ext4 and f2fs know it; root only. The flag says what reaches the disk
// first: everything (0, 1) or nothing (2). (Other filesystems write only their log for 1.)
inline constexpr unsigned long kShutDownRequest = _IOR('X', 125, std::uint32_t);
inline constexpr std::uint32_t kShutDownSync = 0;
inline constexpr std::uint32_t kShutDownFlushLog = 1;
inline constexpr std::uint32_t kShutDownNothing = 2;

}  // namespace lazyfs::fuse
