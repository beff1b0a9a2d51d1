// `mount -o remount` of a mounted volume.
#pragma once

#include "fuse/session/daemon.h"

namespace lazyfs::fuse {

// Changes the flags of the mount, and passes to its daemon what else the options change (placement,
// sync, dirsync). A daemon that mounted for reading only does not become a writing one. Returns the
// exit status.
int remount(const DaemonPlan& plan);

}  // namespace lazyfs::fuse
