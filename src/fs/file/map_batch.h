// One batch of the metadata store that changes maps of files, the items that belong to them, and
// the shared extents that they refer to.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/result.h"
#include "data/band_table.h"
#include "fs/file/map_change.h"
#include "fs/file/shared_change.h"
#include "fs/file/shared_extents.h"
#include "fs/inode/inode.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Everything in it is applied at once, or nothing is. REQUIRES: until it ends, the caller holds the
// exclusive lock of each inode whose map or item it changes, or the inode is deleted and this
// thread deletes it. A batch that was not applied changes nothing.
class MapBatch {
 public:
  MapBatch(meta::Store& store, data::BandTable& bands, SharedExtents& shared)
      : store_(store), bands_(bands), shared_(shared) {}

  // Begins a change of the inode's map; at most one for each inode. Valid as long as the batch.
  MapChange& change(InodeNo inode) { return changes_.emplace_back(store_, inode); }
  SharedChange& shared() { return shared_; }
  // Further items.
  meta::Batch& items() { return items_; }
  // Drops the newest change, in which nothing but unmap() was called.
  void drop_last_change() { changes_.pop_back(); }
  bool has_changes() const { return !changes_.empty(); }

  // Writes the inode's item together with `change` of its map. The item is `record` with
  // `tree_size` as its size (I5), and with `blocks` changed as the map is. apply() then updates
  // record.blocks, tree_size and map_version of the inode.
  void put_inode(Inode& inode, const InodeRecord& record, std::uint64_t tree_size,
                 const MapChange& change) REQUIRES(inode.mu);

  // Lowers the counts of the references that the changes so far have ended. Error: kItemBad, when
  // one of them has no reference count. apply() does it too.
  Result<> end_references();
  // Errors: those of end_references() and of Store::try_apply(). After kMustWait the caller ends
  // the batch, which may hold the lock of shared extents, before it waits.
  Result<> apply(meta::Reserve reserve = meta::Reserve::kNone);

 private:
  struct Item {
    Inode* inode;
    InodeRecord record;
    const MapChange* change;
  };

  meta::Store& store_;
  data::BandTable& bands_;
  SharedChange shared_;
  std::deque<MapChange> changes_;  // a deque: references stay valid
  std::vector<Item> inodes_;
  meta::Batch items_;
};

}  // namespace lazyfs::fs
