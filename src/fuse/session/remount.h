// `mount -o remount` of a mounted volume.
#pragma once

#include "fuse/session/daemon.h"

namespace lazyfs::fuse {

// Changes the flags of the mount, and passes the placement, sync and dirsync to its daemon. A mount
// becomes writable only after its volume has agreed to take changes. Returns the exit status.
int remount(const DaemonPlan& plan);

}  // namespace lazyfs::fuse
