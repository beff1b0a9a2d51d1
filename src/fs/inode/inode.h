// An inode in memory, and the table of those that somebody uses.
//
// An inode is in the table while the kernel holds lookups on it, while an operation works on it, or
// while it has changes that are not in the tree yet (the dirty list holds it then). All three are
// references.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"
#include "base/types.h"
#include "data/write_buffer.h"
#include "fs/item/schema.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

class InodeTable;

// Invariants:
//   I1  record is not older than the inode's item in the tree; when they differ, record_dirty
//   I2  record_dirty, or a page in buffer  =>  the inode is on the dirty list (on_dirty_list)
//   I3  gone  =>  the tree has no item of this inode and never will again
//   I5  tree_size <= record.size, and all data below tree_size is in the tree, if perhaps as it was
//       before an overwrite: a crash shows no file longer than what was written of it. No extent
//       reaches behind tree_size's block (but see I7). Items of this inode are encoded by
//       for_tree()
//   I6  the rest of the last block, behind the end of the file, is zeros in the buffer, but in a
//       band it may be what was there before the file was cut; whoever grows the file beyond that
//       block brings it into the buffer first
//   I4  at most one thread writes this inode back at a time (writing_back)
//   I7  uncut: a truncation that failed has left extents behind the end. The inode is on the dirty
//       list until they are freed, and does not grow before; a crash leaves its orphan record
//
// mu may be held while the tree reads a metadata node from the device; it then keeps only those
// waiting who want this very inode. It is never held over I/O on data bands or over a commit.
struct Inode {
  explicit Inode(InodeNo number) : no(number) {}

  const InodeNo no;
  // Lookups of the kernel and users; from 0 to 1 only in the table.
  std::atomic<std::uint64_t> references{0};
  std::atomic<bool> loaded{false};  // record is valid

  mutable SharedMutex mu;
  InodeRecord record GUARDED_BY(mu);
  bool record_dirty GUARDED_BY(mu) = false;
  std::uint64_t tree_size GUARDED_BY(mu) = 0;  // the size that the tree may show, see I5
  bool gone GUARDED_BY(mu) = false;
  bool on_dirty_list GUARDED_BY(mu) = false;
  bool uncut GUARDED_BY(mu) = false;
  std::uint64_t inline_bytes GUARDED_BY(mu) = 0;  // length of the inline item, when inline_known
  bool inline_known GUARDED_BY(mu) = false;
  std::uint64_t map_version GUARDED_BY(mu) = 0;  // +1 whenever blocks get another place or content
  std::unique_ptr<data::WriteBuffer> buffer GUARDED_BY(mu);  // made at the first write

  // Writing back. Errors are counted, so that each open file can tell whether it has reported them.
  std::atomic<std::uint64_t> write_errors{0};
  std::atomic<Errc> last_write_error{Errc::kDeviceWrite};

  Mutex write_back_mu;  // leaf
  CondVar write_back_done;
  bool writing_back GUARDED_BY(write_back_mu) = false;
};

// A counted reference. Not thread-safe itself; different references to one inode are.
class InodeRef {
 public:
  InodeRef() = default;
  // Takes over one count.
  InodeRef(InodeTable* table, Inode* inode) : table_(table), inode_(inode) {}
  InodeRef(const InodeRef& other) : table_(other.table_), inode_(other.inode_) {
    if (inode_) inode_->references.fetch_add(1, std::memory_order_relaxed);
  }
  InodeRef(InodeRef&& other) noexcept
      : table_(other.table_), inode_(std::exchange(other.inode_, nullptr)) {}
  InodeRef& operator=(InodeRef other) noexcept {
    std::swap(table_, other.table_);
    std::swap(inode_, other.inode_);
    return *this;
  }
  ~InodeRef();

  Inode* get() const { return inode_; }
  Inode* operator->() const { return inode_; }
  Inode& operator*() const { return *inode_; }
  explicit operator bool() const { return inode_ != nullptr; }
  friend bool operator==(const InodeRef& a, const InodeRef& b) { return a.inode_ == b.inode_; }

 private:
  InodeTable* table_ = nullptr;
  Inode* inode_ = nullptr;
};

// Thread-safe. Each shard's lock is a leaf; the tree is read without it.
class InodeTable {
 public:
  // `unnamed` is called with a reference when an inode without links loses its last user, the dirty
  // list not counted.
  InodeTable(meta::Store& store, std::function<void(InodeRef)> unnamed)
      : store_(store), unnamed_(std::move(unnamed)) {}
  ~InodeTable();

  // The inode, from memory or from the tree. kStale when there is none; kItemBad and what reading
  // can give.
  Result<InodeRef> get(InodeNo inode);
  // Puts a new inode into the table, whose item is (or is about to be) in the tree.
  InodeRef insert(InodeNo inode, const InodeRecord& record);

  // Lookups of the kernel: references that an InodeRef does not hold.
  void take_lookup(Inode& inode) { inode.references.fetch_add(1, std::memory_order_relaxed); }
  void give_back_lookups(InodeNo inode, std::uint64_t count);
  std::size_t size() const;

 private:
  friend class InodeRef;
  static constexpr std::size_t kShards = 64;
  struct Shard {
    mutable Mutex mu;
    std::unordered_map<InodeNo, std::unique_ptr<Inode>> inodes GUARDED_BY(mu);
  };

  Shard& shard_of(InodeNo inode) { return shards_[std::hash<InodeNo>{}(inode) % kShards]; }
  InodeRef find_or_add(InodeNo inode);
  Result<> load(Inode& inode);
  void drop(Inode* inode, std::uint64_t count);
  void last_reference_dropped(InodeNo inode);

  meta::Store& store_;
  const std::function<void(InodeRef)> unnamed_;
  std::array<Shard, kShards> shards_;
};

// Exclusive locks on up to four inodes, taken in the order of their numbers whatever the order of
// the arguments; one inode named twice is locked once. This is the only way to hold two inode
// locks.
class InodeLocks {
 public:
  InodeLocks(std::initializer_list<Inode*> inodes);
  ~InodeLocks();
  InodeLocks(const InodeLocks&) = delete;
  InodeLocks& operator=(const InodeLocks&) = delete;

 private:
  std::array<Inode*, 4> inodes_{};
};

// What is dirty counts as if it had been written already.
Attributes attributes_of(const Inode& inode, meta::Store& store) REQUIRES_SHARED(inode.mu);

// `record` as the inode's item shall hold it now.
InodeRecord for_tree(const Inode& inode, InodeRecord record) REQUIRES_SHARED(inode.mu);

}  // namespace lazyfs::fs
