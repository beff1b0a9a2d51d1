// Notices that mount(2) has made a filesystem read-only or writable. The kernel does not pass that
// on to the daemon of a FUSE filesystem.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace lazyfs::fuse {

// Calls `changed(read_only)` on a thread of its own, a moment after the filesystem of the mount has
// changed. A remount by lazyfs itself (remount.h) asks the daemon before it returns, and does not
// depend on this. Thread-safe.
//
// Invariant: only the filesystem that was mounted at the construction is watched, wherever it is
// mounted, not one that has taken its place since. While a filesystem exists, no other has its
// device number; the number of a mount is free after its unmount, when another mount of the
// filesystem may remain.
class MountWatcher {
 public:
  // `read_only`: how the filesystem was mounted. `changed` is called for changes from then on.
  MountWatcher(const std::string& mount_point, bool read_only, std::function<void(bool)> changed);
  ~MountWatcher();  // ends the thread, after a call of `changed` that is running
  // Looks now. Returns after `changed` was called for a change since the last look.
  void look() EXCLUDES(mu_);
  MountWatcher(const MountWatcher&) = delete;
  MountWatcher& operator=(const MountWatcher&) = delete;

 private:
  void run();
  bool try_to_look() EXCLUDES(mu_);
  bool wait_for(int events, int timeout_ms) const;

  const std::function<void(bool)> changed_;
  const int table_fd_, stop_fd_;
  const std::optional<dev_t> device_;  // of the filesystem; nothing: the table could not be read
  Mutex mu_;  // held while `changed` runs
  bool read_only_ GUARDED_BY(mu_);
  std::thread thread_;  // last
};

}  // namespace lazyfs::fuse
