// Shows everybody that a filesystem has become read-only by an error.
#pragma once

#include <string>
#include <thread>

#include "base/mutex.h"

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
  explicit ReadOnlyTurn(std::string mount_point) : mount_point_(std::move(mount_point)) {}
  ~ReadOnlyTurn();  // ends the thread
  ReadOnlyTurn(const ReadOnlyTurn&) = delete;
  ReadOnlyTurn& operator=(const ReadOnlyTurn&) = delete;

  void start();  // once, when it is mounted
  void ask() EXCLUDES(mu_);

 private:
  enum class Outcome : bool { kDone, kLater };
  void run();
  Outcome remount() const;

  const std::string mount_point_;
  std::string mount_id_;  // of /proc/self/mountinfo; constant after start()
  std::thread thread_;
  Mutex mu_;  // leaf
  CondVar changed_;
  bool asked_ GUARDED_BY(mu_) = false;
  bool stopping_ GUARDED_BY(mu_) = false;
};

// What of mount(2)'s flags a daemon that serves may still set, with MS_REMOUNT and MS_RDONLY.
extern const unsigned long kKeptMountFlags;

}  // namespace lazyfs::fuse
