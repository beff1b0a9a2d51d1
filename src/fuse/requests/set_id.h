// Set-user-ID and set-group-ID bits of files that a caller without the right to keep them changes.
//
// With FUSE_HANDLE_KILLPRIV_V2 the daemon must clear them: WRITE and SETATTR say that the caller
// lacks CAP_FSETID; FALLOCATE and COPY_FILE_RANGE do not say it. The volume drops S_ISUID, and
// S_ISGID of files that the group may execute. The functions here add Linux' rule for other files
// (since 6.2): S_ISGID is dropped unless the caller is in the file's group.
//
// Where the kernel does not name the caller (caller.h), files lose the bits. /proc cannot help: a
// kernel thread of the NFS server looks like root there while it acts for a user. A directory then
// keeps S_ISGID: nobody gets rights by that, and without the bit new files get another group.
#pragma once

#include "fuse/requests/handlers.h"

namespace lazyfs::fuse {

// Drops S_ISGID of `inode` if the caller is neither root nor in its group; of a directory only if
// the kernel names the caller. The kernel holds the inode's lock in every request that changes
// contents or attributes, so no chmod comes in between.
Result<> drop_foreign_set_group_id(fuse_req_t req, fs::Volume& volume, InodeNo inode);

// Prepares a change of contents by a caller who may not keep the bits (`clear_set_id`). Returns
// whether the change alters the mode, of which the kernel must then be notified.
Result<bool> prepare_set_id(fuse_req_t req, fs::Volume& volume, InodeNo inode, bool clear_set_id);

}  // namespace lazyfs::fuse
