#include "fuse/session/daemon.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/log.h"
#include "base/thread.h"
#include "base/time_slice.h"
#include "fuse/session/confine.h"
#include "fuse/session/mount_table.h"
#include "fuse/session/mount_watcher.h"
#include "fuse/session/options_in_force.h"
#include "fuse/session/read_only_remounter.h"
#include "fuse/session/session.h"

namespace lazyfs::fuse {

int complain(const DaemonPlan& plan, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", plan.program.c_str(), what.c_str());
  if (!log::is_on_standard_error()) log::error("{}", what);
  return kFailed;
}

std::string absolute(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? std::string(real.get()) : path;
}

namespace {

constexpr int kSpareThisProcess = -900;  // of -1000 to 1000: see proc_pid_oom_score_adj(5)

std::expected<void, std::string> check_mount_point(const std::string& path) {
  // Checked first, because the directory of a mount whose daemon is dead may still be cached.
  if (is_dead(path)) {
    return std::unexpected(path + ": the daemon of the mount there is dead; run umount -l " + path);
  }
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) {
    return std::unexpected(path + ": the mount point cannot be used: " + std::strerror(errno));
  }
  if (!S_ISDIR(st.st_mode)) return std::unexpected(path + ": the mount point is not a directory");
  return {};
}

// The number of a block device; nothing for anything else.
std::optional<dev_t> block_device_number(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0 || !S_ISBLK(st.st_mode)) return {};
  return st.st_rdev;
}

// The kernel would answer a second mount of a device with the first one, so this refuses it before.
std::expected<void, std::string> check_not_mounted(const std::string& source) {
  const auto device = block_device_number(source);
  if (!device) return {};
  const auto mount = mount_of(*device);
  if (!mount) return {};
  return std::unexpected(source + ": the device is busy: it is mounted on " + mount->point);
}

// Keeps two daemons that start at once from both opening a block device. The kernel claims the
// device only at the mount, and a claim by the daemon would keep the kernel out. An image file has
// a lock of its own. udev takes the same lock when it looks at a new device. So the constructor
// waits for udev and for the start of another daemon, and the lock is released as soon as the mount
// exists.
class StartLock {
 public:
  explicit StartLock(const std::string& source) {
    if (!block_device_number(source)) return;
    fd_ = open(source.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ >= 0 && flock(fd_, LOCK_EX) != 0) log::warn("{} cannot be locked", source);
  }
  ~StartLock() { release(); }
  StartLock(const StartLock&) = delete;
  StartLock& operator=(const StartLock&) = delete;

  void release() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

void set_up_log(const DaemonPlan& plan) {
  if (!plan.options.log_file.empty()) {
    log::to_file(plan.options.log_file);
  } else if (plan.foreground) {
    log::to_standard_error();
  } else {
    log::to_syslog();
  }
  log::set_level(plan.options.log_level);
}

void block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

void close_standard_streams() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  if (null > STDERR_FILENO) close(null);
}

int close_volume(const DaemonPlan& plan, std::shared_ptr<fs::Volume> volume) {
  const auto closed = volume->unmount();
  volume.reset();
  if (closed) return 0;
  return complain(plan, plan.source + ": not everything could be made durable: " +
                            std::string(describe(closed.error())));
}

// Makes the volume follow a remount by the kernel alone.
void follow_remount(fs::Volume& volume, bool read_only) {
  const auto done = read_only ? volume.make_read_only() : volume.make_writable();
  const std::string_view state = read_only ? "read-only" : "writable";
  if (done) {
    log::info("fuse: the mount was made {}", state);
  } else {
    log::error("fuse: the mount was made {}, but not the volume: {}", state,
               describe(done.error()));
  }
}

// Passes options to the keeper, for a new mount after the daemon's death.
void remember_options(MountKeeper& keeper, std::string_view options) {
  if (const int error = keeper.remember(options); error != 0) {
    log::warn("a new mount after the daemon's death would not have the options {}: {}", options,
              std::strerror(error));
  }
}

// The command that mounts as this process did; empty: nothing is to be mounted again.
std::vector<std::string> restart_command(const DaemonPlan& plan) {
  const Restart restart = plan.options.restart;
  if (restart == Restart::kNo) return {};
  if (restart == Restart::kOnce && plan.options.was_restarted) return {};
  std::vector<std::string> command{absolute("/proc/self/exe")};
  for (const std::string& list : plan.option_lists) {
    command.insert(command.end(), {"-o", list});
  }
  if (restart == Restart::kOnce) command.insert(command.end(), {"-o", "restart=spent"});
  command.insert(command.end(), {plan.source, plan.mount_point});
  return command;
}

// Makes the kernel end other processes first when memory runs out. When the daemon needs memory,
// the kernel then does not wait for dirty file data, which may be of this mount. Best effort: only
// root may ask for these.
void protect() {
  std::ofstream("/proc/self/oom_score_adj") << kSpareThisProcess << std::flush;
  prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
}

// Reports that an error has made the filesystem read-only. False: the mount stays as it is.
bool report_read_only(const DaemonPlan& plan, MountKeeper& keeper) {
  if (const int error = keeper.report_read_only(); error != 0) {
    log::warn("{} cannot be started: {}", plan.options.error_program, std::strerror(error));
  }
  if (plan.options.after_error == AfterError::kPanic) {
    log::critical("errors=panic: the machine is crashed for {}", plan.mount_point);
    if (const int error = keeper.panic(); error != 0) {
      log::error("{}: {}", plan.options.panic_trigger, std::strerror(error));
    }
  }
  return plan.options.after_error != AfterError::kContinue;
}

// The keeper can crash the machine only if that was asked for.
std::string panic_trigger(const DaemonPlan& plan) {
  return plan.options.after_error == AfterError::kPanic ? plan.options.panic_trigger : "";
}

// The daemon's life. `on_ready` is called when the mount is usable.
int live(DaemonPlan plan, const OpenVolume& open_volume, const std::function<void()>& on_ready) {
  const SignalStack signal_stack;
  set_up_log(plan);
  StartLock start_lock(plan.source);  // may wait; a signal still ends us
  block_signals();
  umask(0);
  protect();
  shorten_time_slice();  // before the first thread
  drop_capabilities();   // also before the first thread
  const auto keeper = std::make_shared<MountKeeper>(
      KeeperPlan{plan.mount_point, plan.options.error_program, panic_trigger(plan),
                 restart_command(plan)});
  if (chdir("/") != 0) return complain(plan, std::string("/: ") + std::strerror(errno));
  if (auto free = check_not_mounted(plan.source); !free) return complain(plan, free.error());
  ReadOnlyRemounter read_only_remounter(keeper, plan.mount_point,
                                        [&] { return report_read_only(plan, *keeper); });
  if (const auto made = read_only_remounter.start(); !made) {
    return complain(plan, plan.source + ": " + std::string(describe(made.error())));
  }
  plan.options.volume.on_read_only = [&] { read_only_remounter.ask(); };
  OptionsInForce options(plan.options);
  auto volume = open_volume(plan);
  if (!volume) return complain(plan, volume.error());
  plan.options.session.requests.change_options = [&](std::string_view list) {
    auto changed = options.change(**volume, list);
    if (changed) remember_options(*keeper, list);
    return changed;
  };
  std::atomic<MountWatcher*> watching = nullptr;
  plan.options.session.requests.catch_up = [&watching] {
    if (MountWatcher* const watcher = watching) watcher->look();
  };
  const MountPlace place{plan.source, plan.mount_point,
                         block_device_number(plan.source).has_value()};
  auto session = Session::mount(**volume, plan.options.session, place, keeper);
  if (!session) {
    ignore_error((*volume)->unmount(), "the user needs the reason of the failed mount");
    return complain(plan, plan.mount_point + ": " + session.error());
  }
  start_lock.release();
  keeper->note_mount();
  keeper->watch_crashes();
  log::info("{} is mounted on {}", plan.source, plan.mount_point);
  read_only_remounter.note_mount();  // also of a read-only mount, which may become writable
  {
    MountWatcher watcher(plan.mount_point, plan.options.volume.read_only,
                         [&](bool read_only) { follow_remount(**volume, read_only); });
    watching = &watcher;
    on_ready();
    confine();
    (*session)->serve();
  }
  const int status = close_volume(plan, std::move(*volume));
  log::info("{} is unmounted from {}", plan.source, plan.mount_point);
  (*session)->farewell();
  return status;
}

int wait_for_child(const DaemonPlan& plan, int from_child, pid_t child) {
  char status = 0;
  ssize_t got = 0;
  do {
    got = read(from_child, &status, 1);
  } while (got < 0 && errno == EINTR);
  if (got == 1) return status;
  int how = 0;  // the daemon ended before on_ready: it has complained, or it died
  waitpid(child, &how, 0);
  if (WIFEXITED(how) && WEXITSTATUS(how) != 0) return WEXITSTATUS(how);
  std::fprintf(stderr, "%s: %s: the daemon died while mounting (%s)\n", plan.program.c_str(),
               plan.source.c_str(), WIFSIGNALED(how) ? strsignal(WTERMSIG(how)) : "no reason");
  return kFailed;
}

int live_in_background(const DaemonPlan& plan, const OpenVolume& open_volume) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return complain(plan, std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) return complain(plan, std::string("no new process: ") + std::strerror(errno));
  if (child > 0) {
    close(ends[1]);
    return wait_for_child(plan, ends[0], child);
  }
  close(ends[0]);
  setsid();
  return live(plan, open_volume, [ready = ends[1]] {
    close_standard_streams();
    const char fine = 0;
    if (write(ready, &fine, 1) != 1) log::debug("the program that waits for the mount has ended");
    close(ready);
  });
}

}  // namespace

int run_daemon(DaemonPlan plan, const OpenVolume& open_volume) {
  plan.source = absolute(plan.source);
  if (auto usable = check_mount_point(plan.mount_point); !usable) {
    std::fprintf(stderr, "%s: %s\n", plan.program.c_str(), usable.error().c_str());
    return kFailed;
  }
  plan.mount_point = absolute(plan.mount_point);
  if (!plan.options.log_file.empty()) {
    const int log =
        open(plan.options.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (log < 0) return complain(plan, plan.options.log_file + ": " + std::strerror(errno));
    close(log);
  }
  if (!plan.foreground) return live_in_background(plan, open_volume);
  return live(plan, open_volume, [] {});
}

}  // namespace lazyfs::fuse
