// Sets attributes of inodes: mode, owner, times, flags. (Sizes are the business of fs/file.)
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "fs/inode/inode.h"
#include "fs/item/attributes.h"
#include "fs/namespace/xattr.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Applies what `change` names, but for the size, in one batch; an access control list follows the
// mode. Takes the inode's lock. Errors: kStale; kNotSupported, of flags
// that the inode cannot have; those of Store::try_apply().
Result<> change_attributes(meta::Store& store, Xattrs& xattrs, Clock& clock, Inode& inode,
                           const AttributeChange& change) EXCLUDES(inode.mu);

}  // namespace lazyfs::fs
