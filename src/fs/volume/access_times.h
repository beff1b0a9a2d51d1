// Updates access times when files and directories are read.
#pragma once

#include <atomic>

#include "base/clock.h"
#include "fs/inode/dirty_list.h"
#include "fs/inode/inode.h"
#include "fs/volume/mount_options.h"

namespace lazyfs::fs {

// Thread-safe. A new access time is written back with the inode, not at once.
class AccessTimes {
 public:
  struct Mode {
    AccessTime when = AccessTime::kRelative;
    bool of_directories = true;
  };
  AccessTimes(DirtyList& dirty, Clock& clock, Mode mode)
      : dirty_(dirty), clock_(clock), mode_(mode) {}
  void set_mode(Mode mode) { mode_ = mode; }

  // To be called after `inode` was read: a file or symbolic link, or a directory.
  void note(const InodeRef& inode) { note(inode, mode_.load().when); }
  void note_directory(const InodeRef& inode) {
    if (const Mode mode = mode_; mode.of_directories) note(inode, mode.when);
  }

 private:
  void note(const InodeRef& inode, AccessTime when);

  DirtyList& dirty_;
  Clock& clock_;
  std::atomic<Mode> mode_;
};

}  // namespace lazyfs::fs
