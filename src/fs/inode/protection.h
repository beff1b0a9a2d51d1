// What the flags kImmutable and kAppendOnly forbid: the rules of the filesystems in Linux' kernel.
// The daemon checks them, because such flags have no effect on the kernel's FUSE inodes. Pure
// functions; the checks fail with kNotPermitted.
//
// An immutable file keeps contents, attributes, names and links; an immutable directory its
// entries. An append-only file can grow, and an append-only directory can get entries.
#pragma once

#include "base/result.h"
#include "fs/item/schema.h"

namespace lazyfs::fs {

// Whether a name may be added to the directory.
Result<> check_takes_name(const InodeRecord& directory);
// Whether a name of `child` may be removed from the directory, or be made to lead to another inode.
Result<> check_gives_up_name(const InodeRecord& directory, const InodeRecord& child);
// Whether a link may be added, an extended attribute set or removed, or contents changed otherwise
// than by writing: not if the inode is immutable or append-only.
Result<> check_unprotected(const InodeRecord& inode);
// Whether the attributes may be set. The modification and change times of an append-only inode may
// be, because the kernel may send them late, for earlier appends.
Result<> check_change(const InodeRecord& inode, const AttributeChange& change);
// True: the caller skips the change, and reports no error. The kernel may send the times of writes
// that came before the inode became immutable.
bool is_ignored(const InodeRecord& inode, const AttributeChange& change);

}  // namespace lazyfs::fs
