// What the items of the metadata tree mean: keys and records, specified in docs/format.md
// section 5. The files named here are the only places that know their bytes. Everything decoded
// comes from a disk and is checked: a decode function returns kItemBad, and never reads outside its
// span.
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
