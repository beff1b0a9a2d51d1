// The passes of a check and of a repair. docs/checking.md says what each compares.
#pragma once

#include "fsck/context.h"

namespace lazyfs::fsck {

// Of both, in this order; a repair acts on what they find.
void volume_items_pass(Context& context);    // counters, orphan list, band summaries
void inodes_pass(Context& context);          // each inode's items; extents against bands
void bands_pass(Context& context);           // append and delete logs against extents and device
void shared_extents_pass(Context& context);  // shared-extent inodes against references
void names_pass(Context& context);           // links, parents, reachability, orphans; /lost+found
void counters_pass(Context& context);        // the next inode number, and how many exist

// Of a check, at its end.
void check_data(Context& context);  // contents

// Of a repair: before the inodes, before the shared extents, and before the counters.
void find_targets(Context& context);         // Context::targets
void copy_claimed_blocks(Context& context);  // of Context::claimed_twice
void salvage_extents(Context& context);      // extents in lost nodes
void recount(Context& context);              // what inodes count of themselves
void rebuild_bands(Context& context);        // append and delete logs, summaries

}  // namespace lazyfs::fsck
