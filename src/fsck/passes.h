// The passes of a check and of a repair. docs/checking.md says what each compares.
#pragma once

#include "fsck/context.h"

namespace lazyfs::fsck {

// Of both, in this order; a repair acts on what they find.
void volume_items_pass(Context& context);  // counters, orphan list, band summaries
void inodes_pass(Context& context);        // each inode's items by themselves
void names_pass(Context& context);         // links, parents, reachability, orphans; /lost+found
void counters_pass(Context& context);      // the next inode number

// Of a check, in this order.
void check_shared_extents(Context& context);  // reference counts against extents and references
void check_bands(Context& context);           // append and delete logs against extents and device
void check_data(Context& context);            // contents

// Of a repair, in this order.
void find_targets(Context& context);           // Context::targets
void salvage_extents(Context& context);        // extents in lost nodes
void repair_shared_extents(Context& context);  // shared-extent inodes against references
void repair_counts(Context& context);          // what inodes count
void repair_bands(Context& context);           // append and delete logs, summaries

}  // namespace lazyfs::fsck
