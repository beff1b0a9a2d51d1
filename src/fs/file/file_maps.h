// Changes of the maps of files: batches, and freeing ranges.
#pragma once

#include <cstdint>
#include <functional>

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

  // Divides [first, end) into parts that are freed one by one, the last one first: a crash between
  // two of them, or an error, leaves the first part of the range. `free_part(begin, end)` takes the
  // inode's lock and calls free_blocks(). Other threads get the inode's lock meanwhile: it is not
  // held between the parts, and only shared while the next part is looked up. Returns whether the
  // whole range is free; no more than `max_parts` are freed. REQUIRES: the caller holds the inode's
  // token and no lock. Errors: kItemBad, and those of reading the tree and of Store::apply().
  using FreePart = std::function<Result<>(std::uint64_t begin, std::uint64_t end)>;
  Result<bool> free_in_parts(const Inode& inode, std::uint64_t first, std::uint64_t end,
                             std::size_t max_parts, const FreePart& free_part) EXCLUDES(inode.mu);
  // Frees the blocks of one part, and updates the inode's item in the same batch. Errors: kItemBad,
  // kBatchTooLarge, and those of reading the tree and of Store::try_apply().
  Result<> free_blocks(Inode& inode, std::uint64_t first, std::uint64_t end, meta::Reserve reserve)
      REQUIRES(inode.mu);

 private:
  Result<std::uint64_t> begin_of_last(InodeNo inode, std::uint64_t first, std::uint64_t end,
                                      std::size_t at_most);

  meta::Store& store_;
  data::BandTable& bands_;
  SharedExtents& shared_;
};

}  // namespace lazyfs::fs
