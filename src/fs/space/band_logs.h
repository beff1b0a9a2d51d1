// The append and delete logs of bands, as items in the tree.
#pragma once

#include "base/result.h"
#include "base/types.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Erases all items of the band's append and delete logs, in the order of their keys, and the band's
// summary with the last of them: so a check can tell an erasure that a crash has interrupted from
// damage (fsck/bands.cc).
Result<> erase_band_logs(meta::Store& store, BandId band);

}  // namespace lazyfs::fs
