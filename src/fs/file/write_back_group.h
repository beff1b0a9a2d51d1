// The inodes whose pages write-back appends together.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "data/band.h"
#include "device/device.h"
#include "fs/inode/inode.h"
#include "fs/inode/write_back_token.h"
#include "meta/tree/key.h"

namespace lazyfs::fs {

// A frozen page, which never changes (W1), and its block in the file.
struct FrozenPage {
  std::uint64_t file_block = 0;
  device::Piece bytes;
};

// The frozen pages of one inode that go to one stream, in the order of the file.
struct FrozenPart {
  std::vector<FrozenPage> pages;
  std::size_t recorded = 0;  // this many of them are in the map already

  // The first block that is not in the map once `pages_recorded` of them are.
  std::uint64_t next_block(std::size_t pages_recorded) const {
    return pages_recorded < pages.size() ? pages[pages_recorded].file_block : meta::kMaxOffset;
  }
};

using FrozenParts = std::array<FrozenPart, data::kUserStreams>;  // by stream

// One inode of a group.
struct GroupMember {
  InodeRef inode;
  WriteBackToken token;
  std::uint64_t size = 0;        // of the file when its pages were frozen
  std::uint64_t next_dirty = 0;  // the first block that was dirty and not frozen then
  FrozenParts parts;

  FrozenPart& part(data::Stream stream) { return parts[static_cast<std::size_t>(stream)]; }
  std::size_t blocks() const {
    std::size_t sum = 0;
    for (const FrozenPart& p : parts) sum += p.pages.size();
    return sum;
  }
  std::size_t recorded() const {
    std::size_t sum = 0;
    for (const FrozenPart& p : parts) sum += p.recorded;
    return sum;
  }
};

using WriteBackGroup = std::vector<GroupMember>;

// Blocks of a group, and of one append: while a part of a group is recorded, the next one goes to
// the device.
inline constexpr std::size_t kGroupBlocks = 4096;  // 16 MiB
inline constexpr std::size_t kAppendBlocks = 1024;

// Calls of make_room() in a row that may gain nothing. Where bands are nearly all live, cleaning
// fills a band for each one that it empties. A thread that could free space may be waiting for
// these inodes. So after the last call the pages stay dirty, and are retried later.
inline constexpr int kMaxRoomTries = 64;

}  // namespace lazyfs::fs
