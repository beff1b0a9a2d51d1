// The items of the metadata tree: keys and records, specified in docs/format.md section 5. Only the
// files named here know the items' bytes. These come from a disk, so each decode function checks
// them: it returns kItemBad for invalid bytes, and never reads outside its span.
#pragma once

#include "fs/item/attributes.h"
#include "fs/item/band_items.h"
#include "fs/item/dentry_item.h"
#include "fs/item/extent_item.h"
#include "fs/item/inline_item.h"
#include "fs/item/inode_item.h"
#include "fs/item/keys.h"
#include "fs/item/volume_items.h"
#include "fs/item/xattr_item.h"
