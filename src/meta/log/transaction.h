// What a transaction consists of before it is written to the log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/types.h"
#include "meta/log/log_format.h"
#include "meta/log/log_layout.h"

namespace lazyfs::meta {

// A node image, or a piece of a checkpoint, to be written: 4096 bytes, aligned. `crc` covers its
// bytes [8, 4096).
struct LogImage {
  std::uint64_t number = 0;  // of the node, or of the piece
  const std::byte* bytes = nullptr;
  std::uint32_t crc = 0;
  EntryKind kind = EntryKind::kImage;

  NodeNo node() const { return NodeNo{number}; }
};

// Blocks of a cold band into which the cleaner writes nodes that have not changed for long.
struct ColdRoom {
  BandId band;
  std::uint64_t slot = 0;
  std::uint32_t rba = 0;
  std::uint32_t blocks = 0;
  bool is_fresh = false;  // the band's header is not written yet
};

// The place of a transaction in the log.
struct LogPlan {
  Seq seq;
  std::vector<PartPlan> parts;
  bool flushes_first = false;  // a band of it was reset after the newest transaction (L8)
};

}  // namespace lazyfs::meta
