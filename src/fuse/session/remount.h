// `mount -o remount` of a mounted volume.
#pragma once

#include <string>
#include <vector>

#include "fuse/session/daemon.h"

namespace lazyfs::fuse {

// Passes `lists`, the options of `plan` as they were typed, to the mount's daemon, which changes
// all or none of them. Then changes the flags of the mount: it becomes writable only after its
// volume has agreed to take changes, and is read-only only after its volume has ended them. Returns
// the exit status.
int remount(const DaemonPlan& plan, const std::vector<std::string>& lists);

}  // namespace lazyfs::fuse
