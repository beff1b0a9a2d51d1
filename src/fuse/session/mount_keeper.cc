#include "fuse/session/mount_keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <ranges>
#include <span>
#include <utility>

#include "base/log.h"
#include "fuse/session/mount_table.h"

namespace lazyfs::fuse {
namespace {

// Flags that stay when a mount is made read-only.
constexpr unsigned long kKeptFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_SYNCHRONOUS |
                                     MS_DIRSYNC | MS_NOATIME | MS_NODIRATIME | MS_RELATIME;

// The signals that dump a core by default.
constexpr std::array kCoreSignals{SIGSEGV, SIGBUS,  SIGILL,  SIGFPE,  SIGABRT,
                                  SIGQUIT, SIGTRAP, SIGXCPU, SIGXFSZ, SIGSYS};

constexpr const char* kReadOnlyEvent = "read-only";

// How often a mount is tried again, a second apart: the kernel keeps a block device for a moment
// after its daemon's death, and as long as files of the mount are open.
constexpr int kRestartTries = 60;
constexpr int kBetweenTriesMs = 1000;

// In a new process of the keeper, which becomes the program.
[[noreturn]] void become(std::vector<const char*> words) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  setsid();
  const int null = open("/dev/null", O_RDWR);  // the keeper has no standard streams
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
  close_range(STDERR_FILENO + 1, ~0U, 0);
  words.push_back(nullptr);
  execv(words.front(), const_cast<char**>(words.data()));
  _exit(127);
}

// Returns 0 or -1 with errno, as system calls do. The kernel reaps the program: SIGCHLD is ignored.
int start(const KeeperPlan& plan) {
  if (plan.error_program.empty()) return 0;
  const pid_t child = fork();
  if (child == 0) {
    // Only the daemon is spared when memory runs out.
    const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (write(score, "0", 1) < 0) log::debug("the program is spared, too");
    become({plan.error_program.c_str(), kReadOnlyEvent, plan.mount_point.c_str()});
  }
  return child > 0 ? 0 : -1;
}

// Returns 0 or -1 with errno, if it returns.
int crash_machine(const KeeperPlan& plan) {
  const int fd = open(plan.panic_trigger.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t written = write(fd, "c", 1);
  const int error = errno;
  close(fd);
  errno = error;
  return written == 1 ? 0 : -1;
}

bool run(const std::vector<std::string>& command) {
  const pid_t child = fork();
  if (child == 0) {
    std::vector<const char*> words;
    for (const std::string& word : command) words.push_back(word.c_str());
    become(std::move(words));
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

// Adds the options of a list of a remount. Of each option only the last value is kept.
void add_options(std::string_view list, std::vector<std::string>& options) {
  for (const auto part : std::views::split(list, ',')) {
    const std::string_view option(part.begin(), part.end());
    if (option.empty() || option == "remount") continue;
    const auto name_of = [](std::string_view o) { return o.substr(0, o.find('=')); };
    std::erase_if(options, [&](const std::string& o) { return name_of(o) == name_of(option); });
    options.emplace_back(option);
  }
}

std::atomic<int> g_crash_fd = -1;              // in the daemon, for a handler of signals
volatile std::sig_atomic_t g_daemon_died = 0;  // in the keeper

// The end of the socket is not enough: a thread that waits in the kernel keeps the daemon's files
// open.
void watch_daemon() {
  sigset_t death;
  sigemptyset(&death);
  sigaddset(&death, SIGUSR1);
  sigprocmask(SIG_BLOCK, &death, nullptr);
  std::signal(SIGUSR1, [](int) { g_daemon_died = 1; });
  prctl(PR_SET_PDEATHSIG, SIGUSR1);  // sent when the thread that made the keeper ends
}

// Returns the length of the next message; 0 or less when the daemon has died.
ssize_t receive(int fd, std::span<char> message) {
  sigset_t mask;
  sigprocmask(SIG_BLOCK, nullptr, &mask);
  sigdelset(&mask, SIGUSR1);
  pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
  while (g_daemon_died == 0) {
    if (ppoll(&wait, 1, nullptr, &mask) > 0) return recv(fd, message.data(), message.size(), 0);
  }
  return 0;
}

// False: the mount was detached or moved, or another one covers it.
bool is_reachable(const MountEntry& mount) {
  const auto now = mount_at(mount.point);
  return now && now->id == mount.id;
}

// Ends the connection of the mount by a forced unmount; true: done. The mount itself stays, because
// a descriptor of it is open meanwhile.
bool force_end(const MountEntry& mount) {
  if (!is_reachable(mount)) return false;
  const int hold = open(mount.point.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (hold < 0) return false;
  const int done = umount2(mount.point.c_str(), UMOUNT_NOFOLLOW | MNT_FORCE);
  const bool has_ended = done == 0 || errno == EBUSY;
  close(hold);
  return has_ended;
}

// Ends the connection by the control filesystem, which the mount's owner may use too. Only root can
// mount it.
void abort_connection(const MountEntry& mount) {
  const std::string connections = "/sys/fs/fuse/connections",
                    connection = connections + "/" + std::to_string(connection_number(mount)),
                    path = connection + "/abort";
  if (access(connection.c_str(), F_OK) != 0 &&
      ::mount("fusectl", connections.c_str(), "fusectl", 0, nullptr) != 0) {
    log::debug("{} cannot be mounted: {}", connections, std::strerror(errno));
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, "1", 1) != 1) {
    log::debug("the connection is not ended: {}: {}", path, std::strerror(errno));
  }
  if (fd >= 0) close(fd);
}

// Called after the daemon's death. Mounts again, unless someone has unmounted since.
void mount_again(const KeeperPlan& plan, const std::vector<std::string>& changed_options) {
  if (plan.restart.empty() || !is_dead(plan.mount_point)) return;
  const auto mount = mount_at(plan.mount_point);
  log::to_syslog();
  log::error("the daemon of {} has died: mounting again", plan.mount_point);
  if (umount2(plan.mount_point.c_str(), UMOUNT_NOFOLLOW | MNT_DETACH) != 0) {
    return log::error("{} cannot be unmounted: {}", plan.mount_point, std::strerror(errno));
  }
  std::vector<std::string> command = plan.restart;
  for (const std::string& option : changed_options) {
    command.insert(command.end(), {"-o", option});
  }
  if (mount) {  // a remount by the kernel alone reaches no daemon that dies at once
    const bool read_only = (mount->filesystem_flags & MS_RDONLY) != 0;
    command.insert(command.end(), {"-o", read_only ? "ro" : "rw"});
  }
  std::signal(SIGCHLD, SIG_DFL);
  for (int tries = 0; tries < kRestartTries; ++tries) {
    poll(nullptr, 0, kBetweenTriesMs);
    if (run(command)) return log::warn("{} is mounted again", plan.mount_point);
  }
  log::error("{} could not be mounted again", plan.mount_point);
}

}  // namespace

MountKeeper::MountKeeper(const KeeperPlan& plan) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  const pid_t daemon = getpid();
  process_ = fork();
  if (process_ == 0) serve(ends[1], plan, daemon);
  close(ends[1]);
  fd_ = ends[0];
  int ready = -1;
  if (process_ > 0 && recv(fd_, &ready, sizeof ready, 0) == sizeof ready) return;
  log::warn("fuse: the keeper, which unmounts, cannot be started: {}", std::strerror(errno));
  close(std::exchange(fd_, -1));
}

MountKeeper::~MountKeeper() {
  if (fd_ < 0) return;
  ask({Request::kFarewell, 0});
  g_crash_fd = -1;
  close(fd_);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void MountKeeper::watch_crashes() {
  g_crash_fd = fd_;
  struct sigaction report {};
  report.sa_sigaction = report_crash;
  report.sa_flags = static_cast<int>(SA_SIGINFO | SA_RESETHAND | SA_ONSTACK);
  for (const int signal : kCoreSignals) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler == SIG_DFL) sigaction(signal, &report, nullptr);  // else a sanitizer's
  }
}

// Waits for no answer. A fault of an instruction comes again when this returns, and then kills the
// process; any other signal must be raised again.
void MountKeeper::report_crash(int signal, siginfo_t* info, void*) {
  const Request request{Request::kCrash, 0};
  const bool is_sent = send(g_crash_fd, &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
  const bool is_fault =
      signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
  if (!is_sent || !is_fault || info->si_code <= 0) raise(signal);
}

void MountKeeper::note_end() const {
  const Request request{Request::kEnded, 0};
  if (send(fd_, &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    log::debug("fuse: no keeper knows of the mount's end: {}", std::strerror(errno));
  }
}

int MountKeeper::ask(Request request, std::string_view text) {
  MutexLock lock(mu_);
  std::string message(reinterpret_cast<const char*>(&request), sizeof request);
  message += text;
  if (fd_ < 0 || send(fd_, message.data(), message.size(), MSG_NOSIGNAL) < 0) return ECHILD;
  int answer = 0;
  ssize_t got = 0;
  do {
    got = recv(fd_, &answer, sizeof answer, 0);
  } while (got < 0 && errno == EINTR);
  return got == sizeof answer ? answer : ECHILD;
}

// The keeper's side.
class MountKeeper::Process {
 public:
  Process(const KeeperPlan& plan, pid_t daemon) : plan_(plan), daemon_(daemon) {}
  // Returns 0 or an errno.
  int carry_out(Request request, std::string_view text);
  // The daemon has ended.
  void end() const {
    if (is_farewell_ || has_ended_) return;
    end_connection();
    if (is_own()) mount_again(plan_, changed_options_);
  }

 private:
  // Whether what is at the mount point is the daemon's mount, as far as the keeper knows.
  bool is_own() const { return !has_ended_ && (!mount_ || is_reachable(*mount_)); }
  int change_mount(Request request) const;
  void end_connection() const;

  const KeeperPlan& plan_;
  const pid_t daemon_;
  std::optional<MountEntry> mount_;  // the daemon's
  bool has_crashed_ = false;         // the keeper ends the connection: that is no unmounting
  bool has_ended_ = false;           // the mount: what is mounted there now is another one
  bool is_farewell_ = false;
  std::vector<std::string> changed_options_;
};

int MountKeeper::Process::carry_out(Request request, std::string_view text) {
  int done = 0;
  switch (request.what) {
    case Request::kUnmount:
    case Request::kDetach:
    case Request::kReadOnly: done = change_mount(request); break;
    case Request::kReport: done = start(plan_); break;
    case Request::kRemember: add_options(text, changed_options_); break;
    case Request::kMounted: mount_ = mount_at(plan_.mount_point); break;
    case Request::kEnded: has_ended_ = !has_crashed_; break;
    case Request::kCrash:
      has_crashed_ = true;
      end_connection();
      break;
    case Request::kPanic: done = crash_machine(plan_); break;
    case Request::kFarewell: is_farewell_ = true; break;
  }
  return done == 0 ? 0 : errno;
}

// Returns 0 or -1 with errno.
int MountKeeper::Process::change_mount(Request request) const {
  if (!is_own()) {
    errno = ENOTCONN;
    return -1;
  }
  const char* const mount_point = plan_.mount_point.c_str();
  if (request.what == Request::kReadOnly) {
    return mount(nullptr, mount_point, nullptr,
                 MS_REMOUNT | MS_RDONLY | (request.flags & kKeptFlags), nullptr);
  }
  const int detach = request.what == Request::kDetach ? MNT_DETACH : 0;
  return umount2(mount_point, UMOUNT_NOFOLLOW | detach);
}

// The daemon has died, or is about to: ends its connection, and with it what its last threads may
// wait for. While it has threads, its files are open, and no other connection has the number.
void MountKeeper::Process::end_connection() const {
  if (!mount_ || has_ended_ || force_end(*mount_)) return;
  if (getppid() == daemon_) abort_connection(*mount_);
}

void MountKeeper::serve(int fd, const KeeperPlan& plan, pid_t daemon) {
  prctl(PR_SET_NAME, "lazyfs-keeper");
  std::signal(SIGCHLD, SIG_IGN);
  std::signal(SIGQUIT, [](int) {});  // from a terminal it reaches the daemon, too
  watch_daemon();
  if (fd > 0) close_range(0, static_cast<unsigned>(fd) - 1, 0);
  close_range(static_cast<unsigned>(fd) + 1, ~0U, 0);
  int answer = chdir("/");
  if (answer != 0 || send(fd, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) _exit(1);
  std::array<char, sizeof(Request) + kMaxListBytes> message{};
  Process process(plan, daemon);
  for (ssize_t got = 0; (got = receive(fd, message)) > 0;) {
    Request request{};
    const auto length = static_cast<std::size_t>(got);
    if (length < sizeof request) break;
    std::memcpy(&request, message.data(), sizeof request);
    answer = process.carry_out(request, {message.data() + sizeof request, length - sizeof request});
    const bool is_note = request.what == Request::kEnded || request.what == Request::kCrash;
    if (is_note) continue;  // the daemon waits for no answer
    if (send(fd, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) break;
  }
  process.end();
  _exit(0);
}

}  // namespace lazyfs::fuse
