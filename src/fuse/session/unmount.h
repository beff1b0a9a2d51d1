// Waits for the end of a mount, and brings it about when a signal asks for it.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "fuse/session/mount_keeper.h"

namespace lazyfs::fuse {

// Takes the mount away whether it is in use or not, as far as the caller may.
void detach(MountKeeper& keeper, const std::string& mount_point);

// The unmounting is asked for on a thread of its own: it may wait for the very thread that waits
// here. Not thread-safe.
class Unmounter {
 public:
  // `ended_fd` polls readable once the mount has gone. SIGTERM, SIGINT and SIGHUP are blocked in
  // every thread.
  Unmounter(std::shared_ptr<MountKeeper> keeper, std::string mount_point, int ended_fd);
  ~Unmounter();
  Unmounter(const Unmounter&) = delete;
  Unmounter& operator=(const Unmounter&) = delete;

  // Until the mount has gone. A mount that is in use is detached when a signal comes; who uses it
  // then has a few seconds to leave.
  void wait_for_end();

 private:
  void begin();

  const std::shared_ptr<MountKeeper> keeper_;
  const std::string mount_point_;
  const int ended_fd_;
  int signal_fd_ = -1;
  std::thread unmounting_;
};

}  // namespace lazyfs::fuse
