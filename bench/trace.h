// A trace: the operations of programs on the files of a mounted filesystem, as its daemon received
// them. A text file with one record per line. bench/record makes a trace, bench/cleaning replays
// it.
//
//   c FILE                  a regular file is created; FILE is its number, used once
//   w FILE OFFSET LENGTH    bytes are written; adjacent writes to one file are one record
//   t FILE SIZE             the file is truncated or extended without data
//   d FILE                  the file is deleted: it has no name and no user any more
//   s FILE                  fsync
//   S                       sync of everything
//   p MILLISECONDS          no request arrived
#pragma once

#include <cstdint>
#include <istream>
#include <ostream>
#include <string>
#include <vector>

namespace lazyfs::bench {

enum class TraceKind : char {
  kCreate = 'c',
  kWrite = 'w',
  kTruncate = 't',
  kDelete = 'd',
  kFsync = 's',
  kSync = 'S',
  kPause = 'p'
};

struct TraceRecord {
  TraceKind kind = TraceKind::kSync;
  std::uint64_t file = 0;
  std::uint64_t value = 0;   // offset, size or milliseconds
  std::uint64_t length = 0;  // bytes
};

inline void print(std::ostream& to, const TraceRecord& record) {
  to << static_cast<char>(record.kind);
  switch (record.kind) {
    case TraceKind::kCreate:
    case TraceKind::kDelete:
    case TraceKind::kFsync: to << ' ' << record.file; break;
    case TraceKind::kWrite:
      to << ' ' << record.file << ' ' << record.value << ' ' << record.length;
      break;
    case TraceKind::kTruncate: to << ' ' << record.file << ' ' << record.value; break;
    case TraceKind::kPause: to << ' ' << record.value; break;
    case TraceKind::kSync: break;
  }
  to << '\n';
}

// Returns false at the end of the trace, and at an invalid record.
inline bool read(std::istream& from, TraceRecord& record) {
  char kind = 0;
  record = {};
  if (!(from >> kind)) return false;
  record.kind = static_cast<TraceKind>(kind);
  switch (record.kind) {
    case TraceKind::kCreate:
    case TraceKind::kDelete:
    case TraceKind::kFsync: from >> record.file; break;
    case TraceKind::kWrite: from >> record.file >> record.value >> record.length; break;
    case TraceKind::kTruncate: from >> record.file >> record.value; break;
    case TraceKind::kPause: from >> record.value; break;
    case TraceKind::kSync: break;
    default: from.setstate(std::ios::failbit);
  }
  return !from.fail();
}

}  // namespace lazyfs::bench
