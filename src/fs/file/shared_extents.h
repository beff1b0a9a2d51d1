// Extents that several files refer to. A shared-extent inode owns them and counts the references to
// each of its blocks (docs/format.md, section 5). The bands' logs, the collector and fsck treat it
// as any other owner of extents; only this file and fs/file/shared_change.h know that its blocks
// die with their last reference.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "data/band_table.h"
#include "fs/file/extent_map.h"
#include "fs/inode/inode.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Reads shared extents, and has the lock of their changes.
//
// Lock order: inodes of files, change_mu_, shared-extent inodes. A thread that holds change_mu_ may
// lock several shared-extent inodes in any order. Every other thread (readers, the collector) locks
// one at a time and waits for no other lock meanwhile.
// Thread-safe.
class SharedExtents {
 public:
  SharedExtents(meta::Store& store, InodeTable& inodes) : store_(store), inodes_(inodes) {}

  // A piece of what a reference leads to: `extent.file_block` is the block in the referring file.
  // `pin` keeps the extent's band from being reset.
  struct Piece {
    MappedExtent extent;
    data::BandPin pin;
  };
  // The pieces that the reference at `file_block` leads to. kItemBad: a part of them is missing.
  // REQUIRES: the caller holds the referring inode's lock, so that the reference stays.
  Result<std::vector<Piece>> resolve(std::uint64_t file_block, const ReferenceRecord& reference,
                                     data::BandTable& bands);
  // How many of the reference's blocks have no other reference.
  // REQUIRES: the caller holds the referring inode's lock exclusively.
  Result<std::uint64_t> count_exclusive(const ReferenceRecord& reference);

 private:
  friend class SharedChange;

  // Reference counts, by the first block.
  using Counts = std::map<std::uint64_t, ReferenceCountRecord>;
  Result<Counts> read_counts(InodeNo inode, std::uint64_t first, std::uint64_t blocks);
  // Returns the shared-extent inode, not locked. kItemBad: it is none. A damaged reference may name
  // the referring file itself, whose lock the caller holds. So the inode's item is checked before
  // its lock is taken.
  Result<InodeRef> find(InodeNo number);

  meta::Store& store_;
  InodeTable& inodes_;
  Mutex change_mu_;  // held by each change of reference counts
};

// Logs that the reference's blocks have `what`, such as "no reference count". Returns kItemBad.
Errc missing_from(const ReferenceRecord& reference, std::string_view what);

}  // namespace lazyfs::fs
