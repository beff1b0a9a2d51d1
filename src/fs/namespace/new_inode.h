// What new inodes have besides their record: inherited access control lists, targets of symlinks.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "fs/inode/inode.h"
#include "fs/namespace/directory.h"
#include "fs/namespace/xattr.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// The default access control list of the directory `parent`, if it has one, becomes the new file's
// list, restricted by its mode, and the default list of a new directory. Changes `record` to what
// it is with these lists. The caller keeps the directory from changing until the inode is made.
Result<Directories::AddItems> inherit_acl(InodeTable& inodes, Xattrs& xattrs, InodeNo parent,
                                          InodeRecord& record);

// Items with the target; `target` must outlive what is returned.
Directories::AddItems symlink_target(std::string_view target);
// kInvalid: no symlink. kItemBad: pieces of the target are missing.
Result<std::string> read_symlink(meta::Store& store, const Inode& inode) EXCLUDES(inode.mu);

}  // namespace lazyfs::fs
