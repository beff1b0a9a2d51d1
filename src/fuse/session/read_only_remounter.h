// Shows that an error has made a filesystem read-only.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "fuse/session/mount_keeper.h"

namespace lazyfs::fuse {

// Remounts a mount point read-only when asked to: the kernel then reports it in statfs and
// /proc/mounts, and refuses every change by itself (EROFS). The kernel refuses the remount while a
// file is open for writing; it is then tried again each second. An ordinary user's daemon may not
// remount, and does not. Thread-safe.
//
// Invariant: only the mount that existed at start() is ever remounted, not one that has taken its
// place since.
class ReadOnlyRemounter {
 public:
  ReadOnlyRemounter(std::shared_ptr<MountKeeper> keeper, std::string mount_point)
      : keeper_(std::move(keeper)), mount_point_(std::move(mount_point)) {}
  ~ReadOnlyRemounter();  // ends the thread
  ReadOnlyRemounter(const ReadOnlyRemounter&) = delete;
  ReadOnlyRemounter& operator=(const ReadOnlyRemounter&) = delete;

  void start();  // REQUIRES: called once, when the filesystem is mounted
  void ask() EXCLUDES(mu_);

 private:
  enum class Outcome : bool { kDone, kLater };
  void run();
  Outcome remount() const;

  const std::shared_ptr<MountKeeper> keeper_;
  const std::string mount_point_;
  int mount_id_ = 0;  // constant after start()
  std::thread thread_;
  Mutex mu_;  // leaf
  CondVar changed_;
  bool asked_ GUARDED_BY(mu_) = false;
  bool stopping_ GUARDED_BY(mu_) = false;
};

}  // namespace lazyfs::fuse
