// An inode in memory, and the table of all inodes in use.
//
// An inode is in the table while it is referenced: by the kernel's lookups, by an operation that
// works on it, or by the dirty list, which holds each inode with changes that the tree lacks. When
// the table is full, it keeps only the number of lookups of an inode that only the kernel
// references.
#pragma once

#include <array>
#include <atomic>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/types.h"
#include "data/write_buffer.h"
#include "fs/item/schema.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

class InodeTable;

// Of DirtyList, which guards it: so an inode can always be put on the list.
struct DirtyHook : boost::intrusive::list_base_hook<
                       boost::intrusive::link_mode<boost::intrusive::safe_link>> {
  std::chrono::nanoseconds dirty_since{};
  InodeTable* dirty_table = nullptr;
};

// Which block of an inode is inline: the tree holds its contents in place of an extent (I8).
struct InlineState {
  bool is_known = false;  // false: the tree has not been searched
  std::uint64_t block = 0;
  std::uint32_t bytes = 0;  // stored of it, counted from its start; 0: no block is inline
  // Whether the inline block is known to be one of [first, first + count).
  bool is_in(std::uint64_t first, std::uint64_t count) const {
    return bytes > 0 && block >= first && block - first < count;
  }
};

// Invariants:
//   I1  record is at least as new as the inode's item in the tree. If they differ, record_dirty is
//       set (but for the size, see I5).
//   I2  record_dirty, or a page in buffer  =>  the inode is on the dirty list (on_dirty_list).
//   I3  deleted  =>  the tree has no item of this inode, or only the running deletion changes its
//       items. No item is ever added again.
//   I4  At most one thread holds the inode's WriteBackToken (writing_back).
//   I5  tree_size <= record.size. The tree holds all data below tree_size, but a block may still be
//       the one before an overwrite. So after a crash no file is longer than the data written to
//       it. No extent reaches past tree_size's block (exception: I7). for_tree() encodes this
//       inode's item.
//   I6  Bytes past the end of the file in its last block are zero in the write buffer but may be
//       stale in a band. An operation that extends the file past that block first loads the block
//       into the buffer and zeroes them.
//   I7  truncate_pending: extents past the end of the file remain. The holder of the token frees
//       them, or, after a failed truncation, the inode stays on the dirty list until write-back has
//       done so; the file does not grow until then. Only the holder of the token sets it. The
//       inode's orphan record makes a mount free them after a crash.
//   I8  At most one block of an inode is inline, and no extent maps it. The bytes stored of it end
//       at or before tree_size.
//
// mu may be held while the tree reads a metadata node from the device: only threads that need this
// inode wait meanwhile. mu is never held over I/O on data bands or over a commit.
struct Inode : DirtyHook {
  explicit Inode(InodeNo number) : no(number) {}
  // For -Wthread-safety, where the analysis cannot see that this thread holds mu exclusively. Does
  // nothing.
  void assert_held() const LAZYFS_TSA(assert_capability(mu)) {}

  const InodeNo no;
  // The kernel's lookups, and one for each InodeRef. Only the table raises it from 0 to 1.
  std::atomic<std::uint64_t> references{0};
  // How many of `references` are the kernel's lookups. A thread that raises both raises this last.
  std::atomic<std::uint64_t> lookups{0};
  std::atomic<bool> loaded{false};  // record is valid
  std::atomic<bool> used{true};     // since the table last looked whether it can drop the inode
  // The latest change time that a caller was given: change_time() makes the next one differ.
  mutable std::atomic<std::int64_t> shown_change_ns{INT64_MIN};

  mutable SharedMutex mu;
  InodeRecord record GUARDED_BY(mu);
  bool record_dirty GUARDED_BY(mu) = false;
  std::uint64_t tree_size GUARDED_BY(mu) = 0;  // the size in the inode's item, see I5
  bool deleted GUARDED_BY(mu) = false;
  bool on_dirty_list GUARDED_BY(mu) = false;
  bool truncate_pending GUARDED_BY(mu) = false;
  InlineState inline_state GUARDED_BY(mu);
  std::uint64_t map_version GUARDED_BY(mu) = 0;  // +1 whenever blocks get another place or content
  std::unique_ptr<data::WriteBuffer> buffer GUARDED_BY(mu);  // null until the first write

  // Only the holder of the token changes these three.
  // The number of write-back errors. Each open file stores the number up to which it has reported.
  std::atomic<std::uint64_t> write_errors{0};
  std::atomic<Errc> last_write_error{Errc::kDeviceWrite};
  std::atomic<bool> write_back_failed{false};  // the last one; the next has its own group

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

  // Leaves the count to whoever makes another InodeRef of the two.
  std::pair<InodeTable*, Inode*> release() {
    return {std::exchange(table_, nullptr), std::exchange(inode_, nullptr)};
  }
  Inode* get() const { return inode_; }
  Inode* operator->() const { return inode_; }
  Inode& operator*() const { return *inode_; }
  explicit operator bool() const { return inode_ != nullptr; }
  friend bool operator==(const InodeRef& a, const InodeRef& b) { return a.inode_ == b.inode_; }

 private:
  InodeTable* table_ = nullptr;
  Inode* inode_ = nullptr;
};

// An inode without links whose last reference, other than the dirty list's, has ended.
struct Unnamed {
  InodeNo number;
  InodeRef held;  // null: the table has dropped the inode, which had no dirty pages
  std::uint64_t blocks = 0;  // that its deletion frees at least
};

// An inode that was looked up. Not thread-safe.
class LookedUp {
 public:
  explicit LookedUp(InodeRef in_memory) : in_memory_(std::move(in_memory)) {}
  explicit LookedUp(std::unique_ptr<Inode> copy) : copy_(std::move(copy)) {}
  const Inode& operator*() const { return copy_ ? *copy_ : *in_memory_; }
  const Inode* operator->() const { return &**this; }

 private:
  InodeRef in_memory_;           // null: the table does not have the inode in memory
  std::unique_ptr<Inode> copy_;  // the inode as in the tree; not to be changed
};

// Invariant: an inode is in at most one of `inodes` and `remembered` of its shard. `remembered` has
// the number of lookups of inodes without an InodeRef whose state is in the tree. Thread-safe. Each
// shard's lock is a leaf; the tree is read without it.
class InodeTable {
 public:
  // The table keeps about this many inodes in memory, some 640 bytes each, unless more are in use.
  static constexpr std::size_t kInMemory = 65536;

  InodeTable(meta::Store& store, std::function<void(Unnamed)> unnamed,
             std::size_t in_memory = kInMemory);
  ~InodeTable();

  // Returns the inode, from memory or from the tree. Errors: kStale (it does not exist, or was
  // deleted), kItemBad, and those of reading the tree.
  Result<InodeRef> get(InodeNo inode);
  // Puts a new inode into the table. REQUIRES: the caller locks the inode before the tree has its
  // item, and until fill(): from then on a file handle may lead other threads to it.
  InodeRef add(InodeNo inode) { return find_or_add(inode); }
  static void fill(Inode& inode, const InodeRecord& record) REQUIRES(inode.mu);

  // Takes one lookup for the kernel: a reference without an InodeRef. REQUIRES: the caller has an
  // InodeRef.
  void take_lookup(Inode& inode) {
    inode.references.fetch_add(1, std::memory_order_relaxed);
    inode.lookups.fetch_add(1, std::memory_order_release);
  }
  void give_back_lookups(InodeNo inode, std::uint64_t count);
  // Takes a lookup on an inode whose attributes the caller only reads, as for a listing. An inode
  // that is not in memory stays out of memory. Errors: kStale (it does not exist, has no name, or
  // is a shared-extent inode), kItemBad, and those of reading the tree.
  Result<LookedUp> look_up(InodeNo inode);
  // Takes lookups on an inode; reads nothing. REQUIRES: the inode is not in memory.
  void adopt_lookups(InodeNo inode, std::uint64_t count);
  // The lookups that are held. REQUIRES: no InodeRef exists, and no thread uses the table.
  std::vector<std::pair<InodeNo, std::uint64_t>> lookups() const;
  std::size_t size() const;  // inodes in memory
  // While `on`, loading an inode sets truncate_pending if the inode's orphan record says so.
  void look_for_truncations(bool on) {
    looks_for_truncations_.store(on, std::memory_order_release);
  }

 private:
  friend class InodeRef;
  static constexpr std::size_t kShards = 64;
  struct Shard {
    mutable Mutex mu;
    std::unordered_map<InodeNo, std::unique_ptr<Inode>> inodes GUARDED_BY(mu);
    std::unordered_map<InodeNo, std::uint64_t> remembered GUARDED_BY(mu);
    std::size_t hand GUARDED_BY(mu) = 0;  // the bucket of `inodes` that is looked at next
  };

  Shard& shard_of(InodeNo inode) { return shards_[std::hash<InodeNo>{}(inode) % kShards]; }
  InodeRef find_or_add(InodeNo inode);
  bool remember_lookup(InodeNo inode);
  Result<LookedUp> look_up_in_memory(InodeNo inode);
  Result<std::unique_ptr<Inode>> copy_from_tree(InodeNo inode);
  static bool is_droppable(const Inode& inode);
  void drop_unused(Shard& shard) REQUIRES(shard.mu);
  Result<> load(Inode& inode) REQUIRES(inode.mu);
  void drop(Inode* inode, std::uint64_t count);
  void last_reference_dropped(InodeNo inode);

  meta::Store& store_;
  const std::function<void(Unnamed)> unnamed_;
  const std::size_t shard_limit_;
  std::atomic<bool> looks_for_truncations_{false};
  std::array<Shard, kShards> shards_;
};

// Exclusive locks on up to four inodes, taken in the order of their numbers, whatever the order of
// the arguments. Null arguments are skipped; an inode named twice is locked once. Only two other
// cases hold several locks of inodes: SharedChange, of shared-extent inodes, and making an inode,
// whose number is higher than its directory's.
//
// The analysis of -Wthread-safety cannot follow a list of locks: after the construction call
// `inode->assert_held()` for each inode.
class InodeLocks {
 public:
  InodeLocks(std::initializer_list<Inode*> inodes);
  ~InodeLocks();
  InodeLocks(const InodeLocks&) = delete;
  InodeLocks& operator=(const InodeLocks&) = delete;

 private:
  std::array<Inode*, 4> inodes_{};
};

// Returns the change time for a change of `inodes`; null pointers are skipped. If the clock's
// now_after() can, it is later than all change times of these inodes that callers were given, so
// that programs that compare times (make, rsync, NFS) see each change. The coarse clock, which is
// used with the kernel's write-back cache, cannot: two changes within its step get one time. Every
// change of an existing inode takes its time from here, unless the kernel sends a change time.
// REQUIRES: the exclusive locks of the inodes.
Timestamp change_time(Clock& clock, std::initializer_list<const Inode*> inodes);
// Notes that a caller was given the inode's change time.
void note_shown(const Inode& inode) REQUIRES_SHARED(inode.mu);

// Blocks that the inode has on the device, and dirty ones.
std::uint64_t blocks_held(const Inode& inode) REQUIRES_SHARED(inode.mu);

// Blocks that the inode's deletion frees at least: blocks_held(), but only the dirty ones if it has
// shared blocks.
std::uint64_t blocks_freed(const Inode& inode) REQUIRES_SHARED(inode.mu);

// `record` as the inode's item in the tree must hold it now (I5).
InodeRecord for_tree(const Inode& inode, InodeRecord record) REQUIRES_SHARED(inode.mu);

// Clears the bits that a change of contents clears if the caller has no right to keep them: S_ISUID
// always, S_ISGID if the group may execute the file (else the bit has another meaning).
void drop_set_id(InodeRecord& record);

}  // namespace lazyfs::fs
