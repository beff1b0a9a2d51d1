// One step of a workload as data. A test can list, print, skip and repeat it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lazyfs::crash {

enum class Act : std::uint8_t {
  kCreate,
  kWrite,
  kTruncate,
  kPunch,     // zeroes a range up to the end of the file
  kZero,      // zeroes a range; the file grows to hold the range
  kCopy,      // copy_file_range
  kShare,     // the part of a copy that shares blocks (crash/copying.h)
  kLink,
  kUnlink,
  kRename,
  kExchange,
  kWhiteout,  // renames, and leaves a whiteout under the old name
  kMakeDirectory,
  kRemoveDirectory,
  kSymlink,
  kSetXattr,
  kRemoveXattr,
  kChangeMode,
  kChangeFlags,  // chattr(1)
  kHold,       // opens a file until the unmount: it stays writable after its last name is removed
  kWriteHeld,  // writes to a held file, which the tag selects
  kFsync,
  kDataSync,
  kFsyncDirectory,
  kSync,
  kTick,     // does the background work that is due; all dirty data is old
  kCollect,  // cleans until no band is worth cleaning
  kRemount,
  kKill,  // kills the daemon without a power cut, then mounts again
};

inline constexpr std::uint64_t kAtEnd = ~std::uint64_t{0};

// Paths begin with "/".
struct Operation {
  Act act = Act::kSync;
  // The file or directory. kLink, kRename, kExchange, kWhiteout: the old name. kCopy: the source.
  std::string path;
  // kLink, kRename, kExchange, kWhiteout: the new name. kSymlink: the target. kSetXattr,
  // kRemoveXattr: the attribute's name. kCopy: the destination.
  std::string other;
  std::uint64_t offset = 0;  // kWrite: kAtEnd appends; kTruncate: the new size; kChangeMode: mode;
                             // kChangeFlags: flags, of fs::kAllFlags
  std::uint64_t length = 0;  // kWrite and ranges: bytes; kSetXattr: bytes of the value
  std::uint64_t to = 0;      // kCopy: offset in the destination
  std::uint32_t tag = 0;     // selects the bytes that text_of() writes
};
using Workload = std::vector<Operation>;

std::string to_string(const Operation& operation);
std::string to_string(const Workload& workload);

// Returns whether all names made so far are durable after the operation.
bool promises(Act act);

// Returns the bytes that a write with this tag puts at [offset, offset + length) of a file. Bytes
// of different tags or offsets differ, and no block is all zeros.
std::string text_of(std::uint32_t tag, std::uint64_t offset, std::uint64_t length);

}  // namespace lazyfs::crash
