// Puts the items of inodes into the batch of a change of names.
#pragma once

#include <sys/stat.h>

#include "fs/inode/inode.h"
#include "fs/item/schema.h"
#include "meta/tree/batch.h"

namespace lazyfs::fs {

inline bool is_directory(const InodeRecord& record) { return S_ISDIR(record.mode); }
inline std::uint8_t type_of(const InodeRecord& record) {
  return static_cast<std::uint8_t>((record.mode & S_IFMT) >> 12);
}

// Sets what a new inode inherits from its directory: the flags kNoDump and kNoAccessTime; from a
// set-group-ID directory its group. A new directory also inherits the seed and S_ISGID.
inline void inherit(InodeRecord& record, const InodeRecord& directory) {
  if (is_directory(record)) record.name_seed = directory.name_seed;
  record.flags |= directory.flags & (kNoDump | kNoAccessTime);
  if ((directory.mode & S_ISGID) == 0) return;
  record.owner.gid = directory.owner.gid;
  if (is_directory(record)) record.mode |= S_ISGID;
}

inline void put_inode(meta::Batch& batch, InodeNo inode, const InodeRecord& record) {
  batch.put(key_of(inode, Kind::kInode), encode(record));
}
// Puts a new inode, and counts it.
inline void put_new_inode(meta::Batch& batch, InodeNo inode, const InodeRecord& record) {
  put_inode(batch, inode, record);
  add(batch, CounterChange{.inodes = 1});
}

inline void put_orphan(meta::Batch& batch, InodeNo inode,
                       OrphanRecord::Work work = OrphanRecord::Work::kDelete) {
  batch.put(key_of(kVolumeOwner, Kind::kOrphan, inode.value), encode(OrphanRecord{work}));
}

inline void touch_content(InodeRecord& record, Timestamp now) {
  record.modification = now;
  record.change = now;
}

// Notes that the tree holds `record`. REQUIRES: the batch with this record was applied.
inline void adopt(Inode& inode, const InodeRecord& record) REQUIRES(inode.mu) {
  inode.record = record;
  inode.record_dirty = false;
}

}  // namespace lazyfs::fs
