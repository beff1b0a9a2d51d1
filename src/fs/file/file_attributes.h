// The attributes of an inode as stat(2) shows them.
#pragma once

#include "fs/inode/inode.h"
#include "fs/item/attributes.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Counts dirty blocks as if they had been written back.
Attributes attributes_of(const Inode& inode, meta::Store& store) REQUIRES_SHARED(inode.mu);

}  // namespace lazyfs::fs
