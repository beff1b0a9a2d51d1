// A process beside the daemon that does to its mount what the daemon must not do itself.
//
// umount(2) and remounting wait for answers of the very daemon that serves the mount. A process
// that is killed while one of its own threads waits so never ends: the thread keeps /dev/fuse open,
// so nobody ends the connection, and every sync(2) of the machine waits with it. This process holds
// nothing of the daemon's: when the daemon dies its connection ends, and with it whatever this
// process waits for. It also leaves the daemon without the right to mount anything.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/mutex.h"

namespace lazyfs::fuse {

// Thread-safe. A call that waits can be killed.
class MountKeeper {
 public:
  // To be made before the process has other threads or anything open that it should not share for a
  // moment. Afterwards it may give up what mounting takes: the keeper has it. Signals that are
  // blocked now do not end the keeper; it ends with the daemon.
  explicit MountKeeper(const std::string& mount_point);
  ~MountKeeper();
  MountKeeper(const MountKeeper&) = delete;
  MountKeeper& operator=(const MountKeeper&) = delete;

  // Each returns 0 or what umount(2) and mount(2) leave in errno; ECHILD when there is no keeper.
  int unmount() { return ask({Request::kUnmount, 0}); }
  // Whether it is in use or not.
  int detach() { return ask({Request::kDetach, 0}); }
  // With these flags of mount(2) beside MS_REMOUNT and MS_RDONLY.
  int remount_read_only(unsigned long flags) { return ask({Request::kReadOnly, flags}); }

 private:
  struct Request {
    enum What : unsigned long { kUnmount, kDetach, kReadOnly } what;
    unsigned long flags;
  };
  int ask(Request request) EXCLUDES(mu_);
  [[noreturn]] static void serve(int fd, const char* mount_point);

  Mutex mu_;  // held while the keeper works
  int fd_ = -1;
  pid_t process_ = -1;
};

}  // namespace lazyfs::fuse
