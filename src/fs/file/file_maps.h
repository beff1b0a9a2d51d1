// The maps of all files, for those parts that change them.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "data/band_table.h"
#include "fs/file/map_batch.h"
#include "fs/file/shared_extents.h"
#include "fs/inode/inode.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Thread-safe.
class FileMaps {
 public:
  FileMaps(meta::Store& store, data::BandTable& bands, SharedExtents& shared)
      : store_(store), bands_(bands), shared_(shared) {}

  MapBatch batch() { return MapBatch(store_, bands_, shared_); }

  // Frees the blocks [first, end) of the file, in as many batches as the log has room for, and
  // keeps the inode's item in step. It begins at the end: a crash between two batches, or an error,
  // leaves the first part of the range. Errors: kItemBad, and those of reading the tree and of
  // Store::apply().
  Result<> free_blocks(Inode& inode, std::uint64_t first, std::uint64_t end) REQUIRES(inode.mu);

 private:
  Result<std::vector<MapEntry>> last_entries(InodeNo inode, std::uint64_t first, std::uint64_t end,
                                             std::size_t at_most);

  meta::Store& store_;
  data::BandTable& bands_;
  SharedExtents& shared_;
};

}  // namespace lazyfs::fs
