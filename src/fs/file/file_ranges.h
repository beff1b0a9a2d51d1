// Ranges of a file: freeing their blocks, growing a file for them, finding data and holes.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/result.h"
#include "data/band_table.h"
#include "fs/file/file_maps.h"
#include "fs/file/file_writer.h"
#include "fs/file/truncation.h"
#include "fs/inode/dirty_list.h"
#include "fs/inode/inode.h"
#include "fs/item/attributes.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Thread-safe. Nothing here is atomic towards readers and writers of the same range: the kernel
// excludes them.
class FileRanges {
 public:
  FileRanges(meta::Store& store, FileMaps& maps, FileWriter& writer, Truncation& truncation,
             data::BandTable& bands, DirtyList& dirty, Clock& clock)
      : store_(store),
        maps_(maps),
        writer_(writer),
        truncation_(truncation),
        bands_(bands),
        dirty_(dirty),
        clock_(clock) {}

  // As Volume::punch() and zero().
  Result<> punch(const InodeRef& inode, std::uint64_t offset, std::uint64_t length,
                 RangeFlags flags);
  Result<> zero(const InodeRef& inode, std::uint64_t offset, std::uint64_t length,
                RangeFlags flags);

  // The offset of the first data, or hole, at or past `offset`; the end of the file counts as a
  // hole. kNoSuchRange: there is none, or `offset` is not inside the file.
  Result<std::uint64_t> find_data(Inode& inode, std::uint64_t offset);
  Result<std::uint64_t> find_hole(Inode& inode, std::uint64_t offset);

 private:
  Result<> clear(const InodeRef& inode, std::uint64_t offset, std::uint64_t end);
  Result<> clear_part(const InodeRef& inode, std::uint64_t offset, std::uint64_t end);
  Result<> free_whole_blocks(const InodeRef& inode, std::uint64_t first, std::uint64_t end);
  Result<> free_part(Inode& inode, std::uint64_t first, std::uint64_t end) REQUIRES(inode.mu);
  Result<> free_inline(Inode& inode, std::uint64_t first, std::uint64_t end) REQUIRES(inode.mu);
  Result<> touch(const InodeRef& inode, RangeFlags flags);
  Result<std::uint64_t> end_of_data(Inode& inode, std::uint64_t block, std::uint64_t end)
      REQUIRES_SHARED(inode.mu);
  Result<bool> has_data(Inode& inode, std::uint64_t block) REQUIRES_SHARED(inode.mu);

  meta::Store& store_;
  FileMaps& maps_;
  FileWriter& writer_;
  Truncation& truncation_;
  data::BandTable& bands_;
  DirtyList& dirty_;
  Clock& clock_;
};

}  // namespace lazyfs::fs
