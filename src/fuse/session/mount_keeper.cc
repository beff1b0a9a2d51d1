#include "fuse/session/mount_keeper.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace lazyfs::fuse {
namespace {

// Flags that stay when a mount is made read-only.
constexpr unsigned long kKeptFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_SYNCHRONOUS |
                                     MS_DIRSYNC | MS_NOATIME | MS_NODIRATIME | MS_RELATIME;

constexpr const char* kReadOnlyEvent = "read-only";

// Returns 0 or -1 with errno, as system calls do. The kernel reaps the program: SIGCHLD is ignored.
int start(const char* program, const char* mount_point) {
  if (*program == '\0') return 0;
  const pid_t child = fork();
  if (child != 0) return child > 0 ? 0 : -1;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  setsid();
  const int null = open("/dev/null", O_RDWR);  // the keeper has no standard streams
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
  close_range(STDERR_FILENO + 1, ~0U, 0);
  execl(program, program, kReadOnlyEvent, mount_point, nullptr);
  _exit(127);
}

}  // namespace

MountKeeper::MountKeeper(const std::string& mount_point, const std::string& error_program) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  process_ = fork();
  if (process_ == 0) serve(ends[1], mount_point.c_str(), error_program.c_str());
  close(ends[1]);
  fd_ = ends[0];
  int ready = -1;
  if (process_ > 0 && recv(fd_, &ready, sizeof ready, 0) == sizeof ready) return;
  log::warn("fuse: the keeper, which unmounts, cannot be started: {}", std::strerror(errno));
  close(std::exchange(fd_, -1));
}

MountKeeper::~MountKeeper() {
  if (fd_ < 0) return;
  close(fd_);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

int MountKeeper::ask(Request request) {
  MutexLock lock(mu_);
  if (fd_ < 0 || send(fd_, &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return ECHILD;
  int answer = 0;
  ssize_t got = 0;
  do {
    got = recv(fd_, &answer, sizeof answer, 0);
  } while (got < 0 && errno == EINTR);
  return got == sizeof answer ? answer : ECHILD;
}

void MountKeeper::serve(int fd, const char* mount_point, const char* error_program) {
  prctl(PR_SET_NAME, "lazyfs-keeper");
  std::signal(SIGCHLD, SIG_IGN);
  if (fd > 0) close_range(0, static_cast<unsigned>(fd) - 1, 0);
  close_range(static_cast<unsigned>(fd) + 1, ~0U, 0);
  int answer = chdir("/");
  if (answer != 0 || send(fd, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) _exit(1);
  Request request{};
  while (recv(fd, &request, sizeof request, 0) == sizeof request) {
    int done = -1;
    switch (request.what) {
      case Request::kUnmount: done = umount2(mount_point, UMOUNT_NOFOLLOW); break;
      case Request::kDetach: done = umount2(mount_point, UMOUNT_NOFOLLOW | MNT_DETACH); break;
      case Request::kReadOnly:
        done = mount(nullptr, mount_point, nullptr,
                     MS_REMOUNT | MS_RDONLY | (request.flags & kKeptFlags), nullptr);
        break;
      case Request::kReport: done = start(error_program, mount_point); break;
    }
    answer = done == 0 ? 0 : errno;
    if (send(fd, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) break;
  }
  _exit(0);
}

}  // namespace lazyfs::fuse
