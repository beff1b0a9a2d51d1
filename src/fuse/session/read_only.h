// Shows everybody that a filesystem has become read-only by an error.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "fuse/session/mount_keeper.h"

namespace lazyfs::fuse {

// Remounts a mount point read-only once that is asked for: the kernel then says so in statfs, in
// /proc/mounts, and refuses every change by itself (EROFS). As long as files are open for writing
// it lets nobody do that; it is tried again each second then. An ordinary user's daemon may not
// remount and leaves it. Thread-safe.
//
// Invariant: only the mount that was there at start() is ever remounted, not one that has taken its
// place since.
class ReadOnlyTurn {
 public:
  ReadOnlyTurn(std::shared_ptr<MountKeeper> keeper, std::string mount_point)
      : keeper_(std::move(keeper)), mount_point_(std::move(mount_point)) {}
  ~ReadOnlyTurn();  // ends the thread
  ReadOnlyTurn(const ReadOnlyTurn&) = delete;
  ReadOnlyTurn& operator=(const ReadOnlyTurn&) = delete;

  void start();  // once, when it is mounted
  void ask() EXCLUDES(mu_);

 private:
  enum class Outcome : bool { kDone, kLater };
  void run();
  Outcome remount() const;

  const std::shared_ptr<MountKeeper> keeper_;
  const std::string mount_point_;
  std::string mount_id_;  // of /proc/self/mountinfo; constant after start()
  std::thread thread_;
  Mutex mu_;  // leaf
  CondVar changed_;
  bool asked_ GUARDED_BY(mu_) = false;
  bool stopping_ GUARDED_BY(mu_) = false;
};

}  // namespace lazyfs::fuse
