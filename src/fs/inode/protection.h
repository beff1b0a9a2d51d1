// What the flags kImmutable and kAppendOnly forbid: the rules that Linux has for the filesystems in
// its kernel, on which the flags in the kernel's inodes of FUSE have no effect. Pure functions; all
// of them fail with kNotPermitted.
//
// An immutable file keeps contents, attributes, names and links; an immutable directory its
// entries. An append-only file can grow, and an append-only directory can get entries.
#pragma once

#include "base/result.h"
#include "fs/item/schema.h"

namespace lazyfs::fs {

// A name is added to the directory.
Result<> check_takes_name(const InodeRecord& directory);
// A name of `child` is removed from the directory, or comes to lead to another inode.
Result<> check_gives_up_name(const InodeRecord& directory, const InodeRecord& child);
// Of immutable and append-only inodes: a link is added, an extended attribute set or removed, or
// contents are changed otherwise than by writing.
Result<> check_unprotected(const InodeRecord& inode);
// The attributes are set. The kernel may send the times of earlier appends, so that the time of
// modification alone, with that of change, may be set for append-only inodes.
Result<> check_change(const InodeRecord& inode, const AttributeChange& change);
// The kernel may also send the times of writes that came before the inode became immutable: such a
// change is no error, and is not made.
bool is_ignored(const InodeRecord& inode, const AttributeChange& change);

}  // namespace lazyfs::fs
