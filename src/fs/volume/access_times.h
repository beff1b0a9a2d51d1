// Updates access times when files and directories are read.
#pragma once

#include "base/clock.h"
#include "fs/inode/dirty_list.h"
#include "fs/inode/inode.h"
#include "fs/volume/mount_options.h"

namespace lazyfs::fs {

// Thread-safe. A new access time is written back with the inode, not at once.
class AccessTimes {
 public:
  AccessTimes(DirtyList& dirty, Clock& clock, AccessTime mode)
      : dirty_(dirty), clock_(clock), mode_(mode) {}

  // To be called after `inode` was read.
  void note(const InodeRef& inode);

 private:
  bool is_due(const InodeRecord& record, Timestamp now) const;

  DirtyList& dirty_;
  Clock& clock_;
  const AccessTime mode_;
};

}  // namespace lazyfs::fs
