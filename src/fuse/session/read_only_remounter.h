// Shows that an error has made a filesystem read-only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"
#include "fuse/session/mount_keeper.h"

namespace lazyfs::fuse {

// Reports the error when asked to, and remounts a mount point read-only unless the report says
// otherwise: the kernel then shows it in statfs and /proc/mounts, and refuses every change by
// itself (EROFS). The kernel refuses the remount while a file is open for writing; it is then tried
// again each second. An ordinary user's daemon may not remount, and does not. Thread-safe.
//
// A thread of its own does both, because both ask the keeper, which may be in an umount(2) that
// waits for the thread that met the error.
//
// The keeper remounts only the mount of its daemon, never one that has taken its place.
class ReadOnlyRemounter {
 public:
  // Returns whether the mount shall be remounted.
  using Report = std::function<bool()>;

  ReadOnlyRemounter(std::shared_ptr<MountKeeper> keeper, std::string mount_point, Report report)
      : keeper_(std::move(keeper)),
        mount_point_(std::move(mount_point)),
        report_(std::move(report)) {}
  // Ends the thread, after the report if there was an error. REQUIRES: the keeper is not waiting
  // for a later step of this thread.
  ~ReadOnlyRemounter();
  ReadOnlyRemounter(const ReadOnlyRemounter&) = delete;
  ReadOnlyRemounter& operator=(const ReadOnlyRemounter&) = delete;

  // Begins the thread. Errors: those of start_thread(). REQUIRES: called once.
  Result<> start();
  void note_mount() EXCLUDES(mu_);  // the filesystem is mounted now; until then nothing is done
  void ask() EXCLUDES(mu_);  // does not wait

 private:
  enum class Outcome : bool { kDone, kLater };
  void run();
  Outcome remount() const;

  const std::shared_ptr<MountKeeper> keeper_;
  const std::string mount_point_;
  const Report report_;
  std::thread thread_;
  Mutex mu_;  // leaf
  CondVar changed_;
  bool mounted_ GUARDED_BY(mu_) = false;
  bool asked_ GUARDED_BY(mu_) = false;
  bool stopping_ GUARDED_BY(mu_) = false;
};

}  // namespace lazyfs::fuse
