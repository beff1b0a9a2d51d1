// Waits for the end of a mount, and unmounts when a signal comes.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "fuse/session/mount_keeper.h"

namespace lazyfs::fuse {

// Unmounts, also a mount that is in use, if the caller has the right to. Logs an error otherwise.
void detach(MountKeeper& keeper, const std::string& mount_point);

// Unmounts on a thread of its own, because umount(2) may wait for the very thread that waits here.
// Not thread-safe.
class Unmounter {
 public:
  // `ended_fd` polls readable when the mount has ended. REQUIRES: SIGTERM, SIGINT and SIGHUP are
  // blocked in every thread.
  Unmounter(std::shared_ptr<MountKeeper> keeper, std::string mount_point, int ended_fd);
  ~Unmounter();
  Unmounter(const Unmounter&) = delete;
  Unmounter& operator=(const Unmounter&) = delete;

  // Returns when the mount has ended. When a signal comes, a mount that is in use is detached, and
  // its users have a few seconds to close their files. False: they have not closed them.
  bool wait_for_end();

 private:
  void begin();

  const std::shared_ptr<MountKeeper> keeper_;
  const std::string mount_point_;
  const int ended_fd_;
  int signal_fd_ = -1;
  std::thread unmounting_;
};

}  // namespace lazyfs::fuse
