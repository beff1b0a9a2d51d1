// The passes of a check and of a repair. docs/checking.md says what each compares.
#pragma once

#include "fsck/context.h"

namespace lazyfs::fsck {

// Passes of both, in this order. A repair acts on their findings.
void volume_items_pass(Context& context);    // counters, orphan list, band summaries
void inodes_pass(Context& context);          // each inode's items; extents against bands
void bands_pass(Context& context);           // append and delete logs against extents and device
void shared_extents_pass(Context& context);  // shared-extent inodes against references
void names_pass(Context& context);           // links, parents, reachability, orphans; /lost+found
void counters_pass(Context& context);        // the next inode number, and how many exist

// The last pass of a check.
void check_data(Context& context);  // contents

// Further passes of a repair; repair() has their order.
void find_targets(Context& context);         // Context::targets
void salvage_extents(Context& context);      // extents in lost nodes
void recount(Context& context);              // the counters of inodes
void rebuild_bands(Context& context);        // append and delete logs, summaries

}  // namespace lazyfs::fsck
