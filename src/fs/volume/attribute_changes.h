// Sets attributes of inodes: mode, owner, times, flags. (Sizes are the business of fs/file.)
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "fs/inode/inode.h"
#include "fs/item/attributes.h"
#include "fs/namespace/xattr.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Applies `change`, except the size, in one batch. The access control list follows the mode. Takes
// the inode's lock. Errors: kStale; kNotSupported (the inode cannot have these flags); those of
// reading the list and of Store::try_apply().
Result<> change_attributes(meta::Store& store, Xattrs& xattrs, Clock& clock, Inode& inode,
                           const AttributeChange& change) EXCLUDES(inode.mu);

}  // namespace lazyfs::fs
