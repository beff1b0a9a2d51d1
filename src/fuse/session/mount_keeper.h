// The keeper: a process beside the daemon that unmounts and remounts the daemon's mount.
//
// umount(2) and remounting wait for answers of the very daemon that serves the mount. If a daemon
// called them itself and were killed meanwhile, it would never end: the waiting thread keeps
// /dev/fuse open, so the connection never ends, and every sync(2) of the machine waits. The keeper
// holds no descriptor of the daemon: when the daemon dies, its connection ends, and with it all
// that the keeper waits for. A daemon that is killed while it notifies the kernel of invalid pages
// still waits for itself. So the keeper notices the death of the daemon's main thread, and ends the
// connection, even if the mount has been detached. The keeper itself waits for nothing that needs
// the daemon: processes of its own unmount and remount. The keeper also lets the daemon run without
// the right to mount, or to start programs. If asked to, the keeper mounts again when the daemon
// dies without a farewell.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"

namespace lazyfs::fuse {

struct KeeperPlan {
  std::string mount_point;
  std::string error_program;  // an absolute path; empty: none
  std::string panic_trigger;  // Options::panic_trigger; empty: panic() fails
  // The program and arguments that mount again; empty: nothing is mounted again. `-o LIST` may
  // follow them.
  std::vector<std::string> restart{};
};

// Thread-safe. A call that waits can be killed.
class MountKeeper {
 public:
  // REQUIRES: the process has no other thread, and nothing open that the keeper must not share for
  // a moment. The calling thread lives as long as the daemon. Afterwards the daemon may give up the
  // rights that mounting takes: the keeper keeps them. Signals that are blocked now do not end the
  // keeper; it ends with the daemon.
  explicit MountKeeper(const KeeperPlan& plan);
  ~MountKeeper();  // says farewell
  MountKeeper(const MountKeeper&) = delete;
  MountKeeper& operator=(const MountKeeper&) = delete;

  // The mount exists now. It is the only one whose connection the keeper ends when the daemon dies.
  void note_mount() { ask({Request::kMounted, 0}); }
  // The mount has ended. (The keeper ignores this after a crash, which has ended the connection.)
  // From now on the keeper leaves every mount there alone, because it is another one. Does not wait
  // for the keeper, which may be in an umount(2) that waits for the daemon to close the volume.
  void note_end() const;
  // From now on a signal that dumps a core makes the keeper end the connection first, for which the
  // crash waits up to 2 s: the kernel ends no thread before the core is dumped, and the dump waits
  // for all of them. A process has one keeper for which this holds, the last one that was asked. A
  // thread reports the overflow of its stack only if it has a SignalStack (base/thread.h).
  void watch_crashes();
  // Each returns 0 or the errno of umount(2) or mount(2); ENOTCONN when the mount has ended, was
  // detached or moved, or is covered by another one; ECHILD when no keeper could be started.
  int unmount() { return ask({Request::kUnmount, 0}); }
  // Unmounts even if the mount is in use.
  int detach() { return ask({Request::kDetach, 0}); }
  // `flags`: of mount(2), besides MS_REMOUNT and MS_RDONLY.
  int remount_read_only(unsigned long flags) { return ask({Request::kReadOnly, flags}); }
  // Starts `PROGRAM EVENT MOUNTPOINT` and does not wait for its end. Returns 0, or an errno
  // when it could not be started; a program that does not exist is not noticed.
  int report_read_only() { return ask({Request::kReport, 0}); }
  // Crashes the machine. Returns an errno if that cannot be done or was not asked for, and 0 in
  // tests.
  int panic() { return ask({Request::kPanic, 0}); }
  // A remount has changed these options, which are shorter than kMaxListBytes: mounting again uses
  // them instead of the first mount's.
  int remember(std::string_view list) { return ask({Request::kRemember, 0}, list); }

  static constexpr std::size_t kMaxListBytes = 4096;

 private:
  struct Request {
    enum What : unsigned long {
      kUnmount,
      kDetach,
      kReadOnly,
      kReport,
      kPanic,
      kRemember,
      kMounted,
      kEnded,
      kCrash,
      kFarewell
    } what;
    unsigned long flags;
  };
  int ask(Request request, std::string_view text = {}) EXCLUDES(mu_);
  static void report_crash(int signal, siginfo_t* info, void* context);
  class Process;
  [[noreturn]] static void serve(int fd, int aborted_fd, const KeeperPlan& plan, pid_t daemon);

  Mutex mu_;  // held while the keeper works
  int fd_ = -1;
  int aborted_fd_ = -1;  // can be read after a crash, when the keeper has ended the connection
  pid_t process_ = -1;
};

}  // namespace lazyfs::fuse
