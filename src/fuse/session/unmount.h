// Waits for the end of a mount, and unmounts when a signal comes.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"
#include "fuse/session/mount_keeper.h"

namespace lazyfs::fuse {

// Unmounts, also a mount that is in use, if the caller has the right to. Logs an error otherwise.
void detach(MountKeeper& keeper, const std::string& mount_point);

// Unmounts on a thread of its own, because umount(2) may wait for the very thread that waits here.
// Not thread-safe.
class Unmounter {
 public:
  // Begins the thread, which is needed only later, while it can still be refused in words. Errors:
  // those of start_thread(). REQUIRES: SIGTERM, SIGINT and SIGHUP are blocked in every thread.
  static Result<std::unique_ptr<Unmounter>> make(std::shared_ptr<MountKeeper> keeper,
                                                 std::string mount_point);
  ~Unmounter();
  Unmounter(const Unmounter&) = delete;
  Unmounter& operator=(const Unmounter&) = delete;

  // Returns when the mount has ended: `ended_fd` then polls readable. When a signal comes, a mount
  // that is in use is detached, and its users have a few seconds to close their files. False: they
  // have not closed them.
  bool wait_for_end(int ended_fd);

 private:
  // What the thread shall do. The thread owns it too, because it may outlive the Unmounter.
  struct Order {
    Mutex mu;  // leaf
    CondVar changed;
    bool unmount GUARDED_BY(mu) = false;
    bool end GUARDED_BY(mu) = false;
  };
  explicit Unmounter(std::string mount_point);
  static bool wait_for(Order& order);

  const std::string mount_point_;
  const std::shared_ptr<Order> order_ = std::make_shared<Order>();
  int signal_fd_ = -1;
  bool has_begun_ = false;
  std::thread unmounting_;
};

}  // namespace lazyfs::fuse
