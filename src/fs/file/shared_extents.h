// Shared inodes: who holds the blocks that several files refer to, and how many references each of
// them has (docs/format.md, section 5). To the bands' logs, the collector and fsck a shared inode
// is an inode like any other; only here is it known that its blocks die with their last reference.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "fs/file/extent_map.h"
#include "fs/inode/inode.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Thread-safe. The lock order is: inodes of files, change_mu, shared inodes. Who holds change_mu
// may lock several shared inodes in any order; all others, readers and the collector, hold one at a
// time and wait for nothing else meanwhile.
class SharedInodes {
 public:
  SharedInodes(meta::Store& store, InodeTable& inodes) : store_(store), inodes_(inodes) {}

  // A piece of what a reference leads to: `extent` lies at file block `extent.file_block` of who
  // refers. `pin` keeps its band from being reset.
  struct Piece {
    MappedExtent extent;
    data::BandPin pin;
  };
  // What the reference at `file_block` leads to. kItemBad when a part of it is not there. The
  // caller holds the referring inode's lock, so that the reference stays.
  Result<std::vector<Piece>> resolve(std::uint64_t file_block, const ReferenceRecord& reference,
                                     data::BandTable& bands);
  // How many of the reference's blocks nobody else refers to. The caller holds the referring
  // inode's lock exclusively.
  Result<std::uint64_t> count_exclusive(const ReferenceRecord& reference);

 private:
  friend class SharedChange;

  // The shared inode, which is not locked. Of any other one the lock may not be waited for here,
  // and so is not touched: a damaged reference may name the very file that refers. kItemBad: it is
  // none.
  Result<InodeRef> find(InodeNo number);

  meta::Store& store_;
  InodeTable& inodes_;
  Mutex change_mu_;  // counts of any shared inode change only with it
};

// What one batch changes about shared inodes. It takes change_mu at its first change, and keeps
// that and the shared inodes' locks until it ends: after the batch has been applied or given up.
// While it is alive the caller's thread makes no other. References are added before others to the
// same blocks are removed, or these would die.
class SharedChange {
 public:
  explicit SharedChange(SharedInodes& shared);
  ~SharedChange();
  SharedChange(const SharedChange&) = delete;
  SharedChange& operator=(const SharedChange&) = delete;

  // Gives the extents, of whole append records of `from`, to the new shared inode `inode`, which
  // nobody knows yet; each has one reference then. Their append and delete records come with them.
  Result<> take_over(InodeNo inode, InodeNo from, std::span<const MappedExtent> extents);
  // Errors: kItemBad when the blocks have no share count, and what reading the tree can give.
  Result<> add(const ReferenceRecord& reference);
  Result<> remove(const ReferenceRecord& reference);

  bool empty() const { return changes_.empty(); }
  void put_into(meta::Batch& batch) const;
  // After the batch was applied.
  void account(data::BandTable& bands);

 private:
  struct Change;

  Result<Change*> change_of(InodeNo inode);
  Result<> move_logs(Change& change, InodeNo from, const ExtentRecord& extent);
  Result<> load(Change& change, std::uint64_t first, std::uint64_t blocks);
  Result<> count(const ReferenceRecord& reference, std::int32_t delta);
  void lock_all();

  SharedInodes& shared_;
  std::optional<MutexLock> lock_;
  std::map<InodeNo, std::unique_ptr<Change>> changes_;
};

}  // namespace lazyfs::fs
