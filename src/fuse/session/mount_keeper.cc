#include "fuse/session/mount_keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <ranges>
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

// How long a crash waits for the keeper.
constexpr int kCrashPatienceMs = 2000;

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

// In the daemon, for a handler of signals.
std::atomic<int> g_crash_fd = -1, g_aborted_fd = -1;
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

// Waits until one of the two can be read; a negative one cannot. False: the daemon has died.
bool wait_for(std::array<pollfd, 2>& fds) {
  sigset_t mask;
  sigprocmask(SIG_BLOCK, nullptr, &mask);
  sigdelset(&mask, SIGUSR1);
  while (g_daemon_died == 0) {
    if (ppoll(fds.data(), fds.size(), nullptr, &mask) > 0) return true;
  }
  return false;
}

void close_all_but(int one, int other) {
  const auto low = static_cast<unsigned>(std::min(one, other)),
             high = static_cast<unsigned>(std::max(one, other));
  if (low > 0) close_range(0, low - 1, 0);
  if (high > low + 1) close_range(low + 1, high - 1, 0);
  close_range(high + 1, ~0U, 0);
}

// Called after the daemon's death. Mounts again, unless someone has unmounted since.
void mount_again(const KeeperPlan& plan, const std::vector<std::string>& changed_options) {
  if (plan.restart.empty() || !is_dead(plan.mount_point)) return;
  const auto mount = mount_at(plan.mount_point);
  log::to_syslog();
  log::set_level(log::Level::kWarn);
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
  std::array<int, 2> ends{}, aborted{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  if (pipe2(aborted.data(), O_CLOEXEC) != 0) {
    for (const int end : ends) close(end);
    return;
  }
  const pid_t daemon = getpid();
  process_ = fork();
  if (process_ == 0) serve(ends[1], aborted[1], plan, daemon);
  close(ends[1]);
  close(aborted[1]);
  fd_ = ends[0];
  aborted_fd_ = aborted[0];
  int ready = -1;
  if (process_ > 0 && recv(fd_, &ready, sizeof ready, 0) == sizeof ready) return;
  log::warn("fuse: the keeper, which unmounts, cannot be started: {}", std::strerror(errno));
  close(std::exchange(fd_, -1));
  close(std::exchange(aborted_fd_, -1));
}

MountKeeper::~MountKeeper() {
  if (fd_ < 0) return;
  ask({Request::kFarewell, 0});
  g_crash_fd = -1;
  g_aborted_fd = -1;
  close(fd_);
  close(aborted_fd_);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void MountKeeper::watch_crashes() {
  g_crash_fd = fd_;
  g_aborted_fd = aborted_fd_;
  struct sigaction report {};
  report.sa_sigaction = report_crash;
  report.sa_flags = static_cast<int>(SA_SIGINFO | SA_RESETHAND | SA_ONSTACK);
  for (const int signal : kCoreSignals) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler == SIG_DFL) sigaction(signal, &report, nullptr);  // else a sanitizer's
  }
}

// Waits a moment until the keeper has ended the connection, because what a thread waits for in the
// kernel may need another thread, and none runs while a core is dumped. A fault of an instruction
// comes again when this returns, and then kills the process; any other signal must be raised again.
void MountKeeper::report_crash(int signal, siginfo_t* info, void*) {
  const Request request{Request::kCrash, 0};
  const bool is_sent = send(g_crash_fd, &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
  pollfd aborted{.fd = g_aborted_fd, .events = POLLIN, .revents = 0};
  if (is_sent) poll(&aborted, 1, kCrashPatienceMs);
  const bool is_fault =
      signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
  // A memory error that was found before an instruction has met it.
  const bool is_early = signal == SIGBUS && info->si_code == BUS_MCEERR_AO;
  if (!is_fault || is_early || info->si_code <= 0) raise(signal);
}

void MountKeeper::note_end() const {
  const Request request{Request::kEnded, 0};
  if (send(fd_, &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    log::debug("fuse: no keeper knows of the mount's end: {}", std::strerror(errno));
  }
}

int MountKeeper::ask(Request request, std::string_view text) {
  MutexLock lock(mu_);
  iovec parts[] = {{&request, sizeof request}, {const_cast<char*>(text.data()), text.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = std::size(parts);
  if (fd_ < 0 || sendmsg(fd_, &message, MSG_NOSIGNAL) < 0) return ECHILD;
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
  Process(int fd, int aborted_fd, const KeeperPlan& plan, pid_t daemon)
      : fd_(fd), aborted_fd_(aborted_fd), plan_(plan), daemon_(daemon) {}
  // Returns when the daemon has ended.
  void run();

 private:
  // What a process of the keeper's own returned, or would return; nothing: the answer comes later.
  using Answer = std::optional<int>;
  bool receive();
  Answer carry_out(Request request, std::string_view text);
  Answer begin_change(Request request);
  int change_mount(Request request) const;
  bool pass_on_change();
  bool send_answer(int answer) const;
  bool is_reachable() const;
  bool is_own() const;
  bool force_end() const;
  bool abort_connection() const;
  void end_connection();
  void end();

  const int fd_, aborted_fd_;
  const KeeperPlan& plan_;
  const pid_t daemon_;
  int change_fd_ = -1;               // of the process that changes the mount; -1: none
  std::optional<MountEntry> mount_;  // the daemon's
  std::optional<std::uint64_t> number_;
  bool has_crashed_ = false;           // the keeper ends the connection: that is no unmounting
  bool has_ended_ = false;             // the mount: what is mounted there now is another one
  bool is_connection_ended_ = false;   // by the keeper
  bool is_farewell_ = false;
  std::vector<std::string> changed_options_;
};

void MountKeeper::Process::run() {
  for (;;) {
    std::array<pollfd, 2> fds{pollfd{.fd = fd_, .events = POLLIN, .revents = 0},
                              pollfd{.fd = change_fd_, .events = POLLIN, .revents = 0}};
    if (!wait_for(fds)) break;
    if (fds[1].revents != 0 && !pass_on_change()) break;
    if (fds[0].revents != 0 && !receive()) break;
  }
  end();
}

// Takes one message. False: the daemon has died.
bool MountKeeper::Process::receive() {
  std::array<char, sizeof(Request) + kMaxListBytes> message{};
  Request request{};
  const ssize_t got = recv(fd_, message.data(), message.size(), 0);
  if (got < static_cast<ssize_t>(sizeof request)) return false;
  std::memcpy(&request, message.data(), sizeof request);
  const Answer answer = carry_out(request, {message.data() + sizeof request,
                                            static_cast<std::size_t>(got) - sizeof request});
  return !answer || send_answer(*answer);
}

bool MountKeeper::Process::send_answer(int answer) const {
  return send(fd_, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer;
}

MountKeeper::Process::Answer MountKeeper::Process::carry_out(Request request,
                                                             std::string_view text) {
  int done = 0;
  switch (request.what) {
    case Request::kUnmount:
    case Request::kDetach:
    case Request::kReadOnly: return begin_change(request);
    case Request::kReport: done = start(plan_); break;
    case Request::kRemember: add_options(text, changed_options_); break;
    case Request::kMounted:
      mount_ = mount_at(plan_.mount_point);
      number_ = mount_number(AT_FDCWD, plan_.mount_point);
      break;
    case Request::kEnded: has_ended_ = !has_crashed_; return {};  // the daemon does not wait
    case Request::kCrash:
      has_crashed_ = true;
      end_connection();
      if (write(aborted_fd_, "", 1) != 1) return {};  // the daemon waits a moment
      return {};
    case Request::kPanic: done = crash_machine(plan_); break;
    case Request::kFarewell: is_farewell_ = true; break;
  }
  return done == 0 ? 0 : errno;
}

// Changes the mount in a process of its own: umount(2) and mount(2) may wait for the daemon, and
// the keeper must notice the daemon's crash meanwhile. The daemon waits for the answer, and so asks
// for one change at a time.
MountKeeper::Process::Answer MountKeeper::Process::begin_change(Request request) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return errno;
  const pid_t child = fork();
  if (child == 0) {
    close(fd_);
    const int answer = change_mount(request) == 0 ? 0 : errno;
    _exit(write(ends[1], &answer, sizeof answer) == sizeof answer ? 0 : 1);
  }
  const int error = errno;
  close(ends[1]);
  change_fd_ = ends[0];
  if (child > 0) return {};
  close(std::exchange(change_fd_, -1));
  return error;
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

// The process that changes the mount has ended, or answers. False: the daemon has died.
bool MountKeeper::Process::pass_on_change() {
  int answer = ECHILD;
  if (read(change_fd_, &answer, sizeof answer) != sizeof answer) answer = ECHILD;
  close(std::exchange(change_fd_, -1));
  return send_answer(answer);
}

// False: the mount was detached or moved, or another one covers it.
bool MountKeeper::Process::is_reachable() const {
  if (number_) return mount_number(AT_FDCWD, mount_->point) == number_;
  const auto now = mount_at(mount_->point);
  return now && now->id == mount_->id;
}

// Whether what is at the mount point is the daemon's mount, as far as the keeper knows.
bool MountKeeper::Process::is_own() const {
  return !has_ended_ && (!mount_ || is_reachable());
}

// Ends the connection of the mount by a forced unmount; true: done. The mount itself stays, because
// a descriptor of it is open meanwhile. The path names this mount even if, after the check, it is
// detached and another one takes its place. Only one that covers it after the check would be met.
bool MountKeeper::Process::force_end() const {
  const int hold = open(mount_->point.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (hold < 0) return false;
  bool has_ended = false;
  if (number_ ? mount_number(hold, "") == number_ : is_reachable()) {
    const std::string held = "/proc/self/fd/" + std::to_string(hold);
    const int done = umount2(held.c_str(), MNT_FORCE);
    has_ended = done == 0 || errno == EBUSY;
  }
  close(hold);
  return has_ended;
}

// Ends the connection by the control filesystem, which the mount's owner may use too. Only root can
// mount it. While the daemon has threads, its files are open, and no other connection has the
// number. The file stays that of the connection for which it was opened.
bool MountKeeper::Process::abort_connection() const {
  const std::string connections = "/sys/fs/fuse/connections",
                    connection = connections + "/" + std::to_string(connection_number(*mount_)),
                    path = connection + "/abort";
  if (access(connection.c_str(), F_OK) != 0) {
    ::mount("fusectl", connections.c_str(), "fusectl", 0, nullptr);
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_done = getppid() == daemon_ && write(fd, "1", 1) == 1;
  close(fd);
  return is_done;
}

// The daemon has died, or is about to: ends its connection, and with it what its last threads may
// wait for. Ends no connection after that.
void MountKeeper::Process::end_connection() {
  if (!mount_ || has_ended_ || is_connection_ended_) return;
  is_connection_ended_ = force_end() || abort_connection();
}

// The daemon has ended.
void MountKeeper::Process::end() {
  if (is_farewell_ || has_ended_) return;
  end_connection();
  // An unmount that was under way is not undone. Without its daemon it ends by itself.
  pollfd change{.fd = change_fd_, .events = POLLIN, .revents = 0};
  while (change_fd_ >= 0 && poll(&change, 1, -1) < 0) continue;
  if (is_own()) mount_again(plan_, changed_options_);
}

void MountKeeper::serve(int fd, int aborted_fd, const KeeperPlan& plan, pid_t daemon) {
  prctl(PR_SET_NAME, "lazyfs-keeper");
  std::signal(SIGCHLD, SIG_IGN);
  std::signal(SIGQUIT, [](int) {});  // from a terminal it reaches the daemon, too
  std::signal(SIGPIPE, SIG_IGN);
  watch_daemon();
  log::set_level(log::Level::kOff);  // its file is closed now
  close_all_but(fd, aborted_fd);
  const int answer = chdir("/");
  if (answer != 0 || send(fd, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) _exit(1);
  Process(fd, aborted_fd, plan, daemon).run();
  _exit(0);
}

}  // namespace lazyfs::fuse
