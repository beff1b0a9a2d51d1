// Reading the map from file blocks to bands (fs/file/map_change.h changes it).
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "fs/item/schema.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

struct MappedExtent {
  std::uint64_t file_block = 0;
  ExtentRecord extent;
  std::uint64_t end() const { return file_block + extent.blocks(); }
};

// An extent or a reference.
struct MapEntry {
  std::uint64_t file_block = 0;
  MapRecord record;
  std::uint32_t blocks() const { return blocks_of(record); }
  std::uint64_t end() const { return file_block + blocks(); }
};

// The part of `extent` from `skip` blocks on, `blocks` long.
MappedExtent part_of(const MappedExtent& extent, std::uint32_t skip, std::uint32_t blocks);
MapEntry part_of(const MapEntry& entry, std::uint32_t skip, std::uint32_t blocks);
// The part of `entry` inside [first, end), which is not empty.
MapEntry clip_to(const MapEntry& entry, std::uint64_t first, std::uint64_t end);

// The entries that map blocks of [first, first + count), in order, clipped to the range if `clip`.
// Errors: kItemBad, also when entries overlap, and those of reading the tree.
Result<std::vector<MapEntry>> read_map(meta::Store& store, InodeNo inode, std::uint64_t first,
                                       std::uint64_t count, bool clip = true);
// The extents among them: the inode's own blocks. (fs/file/shared_extents.h resolves references.)
Result<std::vector<MappedExtent>> read_extents(meta::Store& store, InodeNo inode,
                                               std::uint64_t first, std::uint64_t count);

// How many blocks of [first, first + count) are mapped. Errors as above.
Result<std::uint64_t> count_mapped(meta::Store& store, InodeNo inode, std::uint64_t first,
                                   std::uint64_t count);

}  // namespace lazyfs::fs
