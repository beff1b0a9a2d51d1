// What one batch changes of shared extents and of their reference counts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "base/mutex.h"
#include "base/result.h"
#include "data/band_table.h"
#include "fs/file/map_change.h"
#include "fs/file/shared_extents.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Takes SharedExtents::change_mu_ at its first change. Holds that lock, and the locks of the
// shared-extent inodes that it changes, until its destructor: after the batch was applied or given
// up. A thread has one SharedChange at a time.
// REQUIRES: references to blocks are added before others to the same blocks are removed, or the
// blocks would die.
class SharedChange {
 public:
  explicit SharedChange(SharedExtents& shared);
  ~SharedChange();
  SharedChange(const SharedChange&) = delete;
  SharedChange& operator=(const SharedChange&) = delete;

  // Gives the extents, of whole append records of `from`, to the new shared-extent inode `inode`,
  // which no other thread knows yet. Each extent has one reference then. The extents' append and
  // delete records change their owner too.
  Result<> take_over(InodeNo inode, InodeNo from, std::span<const MappedExtent> extents);
  // Counts a reference up or down. Errors: kItemBad when the blocks have no reference count, and
  // those of reading the tree.
  Result<> add(const ReferenceRecord& reference);
  Result<> remove(const ReferenceRecord& reference);

  bool empty() const { return changes_.empty(); }
  void put_into(meta::Batch& batch) const;
  // REQUIRES: the batch was applied.
  void account(data::BandTable& bands);

 private:
  struct Change;  // of one shared-extent inode

  Result<Change*> change_of(InodeNo inode);
  Result<> move_logs(Change& change, InodeNo from, const ExtentRecord& extent);
  Result<> load(Change& change, std::uint64_t first, std::uint64_t blocks);
  Result<> count(const ReferenceRecord& reference, std::int32_t delta);
  void lock_all();

  SharedExtents& shared_;
  std::optional<MutexLock> lock_;
  std::map<InodeNo, std::unique_ptr<Change>> changes_;
};

}  // namespace lazyfs::fs
