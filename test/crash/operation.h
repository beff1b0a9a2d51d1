// One step of a workload, as data: it can be listed, printed, left out and repeated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lazyfs::crash {

enum class Act : std::uint8_t {
  kCreate,
  kWrite,
  kTruncate,
  kPunch,     // zeros over what the file has of a range
  kZero,      // zeros over all of it
  kCopy,      // copy_file_range
  kShare,     // a part of a copy that came to be shared blocks (crash/copying.h)
  kLink,
  kUnlink,
  kRename,
  kExchange,
  kMakeDirectory,
  kRemoveDirectory,
  kSymlink,
  kSetXattr,
  kRemoveXattr,
  kChangeMode,
  kHold,       // opens a file for good: it can be written to when it has no name any more
  kWriteHeld,  // to one that was opened; the tag says which
  kFsync,
  kDataSync,
  kFsyncDirectory,
  kSync,
  kTick,     // the background's due work, when everything dirty is old
  kCollect,  // cleans until nothing is left that pays
  kRemount,
  kKill,  // the daemon is killed, while the disk keeps its power; then mounted again
};

inline constexpr std::uint64_t kAtEnd = ~std::uint64_t{0};

// Paths begin with "/".
struct Operation {
  Act act = Act::kSync;
  // What it is done to; of kLink, kRename, kExchange the old name; of kCopy the source.
  std::string path;
  // The new name; the target of kSymlink; the attribute's name; of kCopy the destination.
  std::string other;
  std::uint64_t offset = 0;  // kWrite: kAtEnd appends; kTruncate: the new size; kChangeMode: mode
  std::uint64_t length = 0;  // kWrite and ranges: bytes; kSetXattr: of the value
  std::uint64_t to = 0;      // kCopy: where in the destination
  std::uint32_t tag = 0;     // of what is written: text_of()
};
using Workload = std::vector<Operation>;

std::string to_string(const Operation& operation);
std::string to_string(const Workload& workload);

// Whether all names so far are durable once it has returned.
bool promises(Act act);

// What a write with this tag puts at [offset, offset + length) of a file: no two tags and no two
// places look alike, and no block of it looks like zeros.
std::string text_of(std::uint32_t tag, std::uint64_t offset, std::uint64_t length);

}  // namespace lazyfs::crash
