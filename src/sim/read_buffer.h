// The buffer of a disk for reads: segments that read-ahead fills. Not thread-safe.
//
// Invariants:
//   B1  a segment holds the sectors [start, end) that follow the last read of its stream; sectors
//       from `from` on arrive one after the other
//   B2  only the newest segment is being filled; a miss or a write ends that
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "sim/mechanics.h"

namespace lazyfs::sim {

struct ReadBufferParameters {
  std::uint32_t segments = 1;
  std::uint32_t ahead_sectors = 0;  // how far read-ahead goes after the end of a read
};

class ReadBuffer {
 public:
  struct Hit {
    double ready_ms = 0;  // when the last of its sectors is in the buffer
    bool continues = false;  // the read begins where the last one of its stream ended
  };

  ReadBuffer(const ReadBufferParameters& parameters, Mechanics& mechanics)
      : parameters_(parameters), mechanics_(mechanics) {}

  // Whether read-ahead brings all of these sectors, and when. Read-ahead then continues past them.
  std::optional<Hit> find(double now_ms, std::uint64_t sector, std::uint32_t sectors);
  // A read from the platters whose first sector passed at `start_ms`: read-ahead follows it.
  void filled(double start_ms, std::uint64_t sector, std::uint32_t sectors);
  // Read-ahead ends: the heads are needed elsewhere. Moves the heads to where it got.
  void stop(double now_ms);
  // Forgets all.
  void clear() {
    segments_.clear();
    is_filling_ = false;
  }

 private:
  struct Segment {
    std::uint64_t start, end;  // of what read-ahead brings
    std::uint64_t from;        // sector that passes at from_ms
    double from_ms, sector_ms;
    double ready_ms(std::uint64_t end_sector) const {
      if (end_sector <= from) return 0;  // already in the buffer
      return from_ms + static_cast<double>(end_sector - from) * sector_ms;
    }
  };
  std::uint64_t end_of(std::uint64_t sector) const;
  bool holds(const Segment& segment, std::uint64_t sector, std::uint64_t end) const;

  const ReadBufferParameters parameters_;
  Mechanics& mechanics_;
  std::deque<Segment> segments_;  // newest last
  bool is_filling_ = false;
};

}  // namespace lazyfs::sim
