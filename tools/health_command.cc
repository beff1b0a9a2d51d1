#include "tools/health_command.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tools/mount_point.h"
#include "tools/volume_commands.h"

namespace lazyfs {
namespace {

using Clock = std::chrono::steady_clock;

// Whether the process, a child, ends in time.
bool ends_within(pid_t child, std::chrono::milliseconds timeout) {
  // glibc 2.36 declares pidfd_open() without C linkage.
  pollfd end = {.fd = static_cast<int>(::syscall(SYS_pidfd_open, child, 0)),
                .events = POLLIN,
                .revents = 0};
  if (end.fd < 0) fail_with("pidfd_open", std::strerror(errno));
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const int ended = ::poll(&end, 1, std::max(0, static_cast<int>(left.count())));
    if (ended >= 0 || errno != EINTR) return ended > 0;
  }
}

// Returns in a child process, and the parent has its exit status. When the daemon has not answered
// in time, the parent ends with `status`, and does not wait for the child: the kernel may be unable
// to end a process that waits for a daemon (docs/transport.md).
void continue_in_child(const std::string& path, std::chrono::milliseconds timeout, int status) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail_with("fork", std::strerror(errno));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(status);  // the parent ended before prctl()
    return;
  }
  if (!ends_within(child, timeout)) {
    std::printf("%s: the daemon has not answered within %g s\n", path.c_str(),
                std::chrono::duration<double>(timeout).count());
    std::fflush(stdout);
    ::kill(child, SIGKILL);
    ::_exit(status);
  }
  int ended = 0;
  ::waitpid(child, &ended, 0);
  ::_exit(WIFEXITED(ended) ? WEXITSTATUS(ended) : status);
}

std::vector<std::string> findings_in(const Json& stats) {
  struct Count {
    const char *key, *meaning;
  };
  static constexpr Count kCounts[] = {
      {"bad_bands", "bands are set aside"},
      {"checksum_errors", "reads of data failed their checksum since the mount"},
      {"read_errors", "reads of data failed on the device since the mount"},
      {"write_back_errors", "attempts to write a file back failed since the mount"}};
  std::vector<std::string> findings;
  const std::string& state = stats["state"].text();
  if (state != "writable" && state != "read-only") findings.push_back("it is " + state);
  for (const auto& [key, meaning] : kCounts) {
    const std::uint64_t count = stats["data"][key].number();
    if (count > 0) findings.push_back(std::to_string(count) + " " + meaning);
  }
  return findings;
}

}  // namespace

bool health_command(const std::string& path, bool as_json, std::chrono::milliseconds timeout,
                    int needs_care) {
  continue_in_child(path, timeout, needs_care);
  const std::string mount_point = mount_point_of(path);
  const auto stats = Json::parse(MountPoint(mount_point).stats());
  if (!stats || !stats->is_object()) fail_with(mount_point, "the daemon's answer is damaged");
  const std::vector<std::string> findings = findings_in(*stats);
  if (as_json) {
    const Json all = Json::object({{"mount_point", mount_point},
                                   {"healthy", findings.empty()},
                                   {"state", (*stats)["state"].text()},
                                   {"findings", findings}});
    std::puts(all.dump(true).c_str());
    return findings.empty();
  }
  for (const std::string& finding : findings) {
    std::printf("%s: %s\n", mount_point.c_str(), finding.c_str());
  }
  if (findings.empty()) {
    std::printf("%s: healthy, %s\n", mount_point.c_str(), (*stats)["state"].text().c_str());
  }
  return findings.empty();
}

}  // namespace lazyfs
