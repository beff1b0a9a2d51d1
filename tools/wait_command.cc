#include "tools/wait_command.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "tools/volume_commands.h"

namespace lazyfs {
namespace {

constexpr std::chrono::milliseconds kBetweenTries{20};

// The daemon holds an exclusive flock on its image for as long as it may write to it. A block
// device is claimed by the kernel while it is mounted, and by programs that work on it.
bool is_in_use(const std::string& path, bool is_block_device) {
  const int claim = is_block_device ? O_EXCL : 0;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | claim);
  if (fd < 0 && errno == EBUSY) return true;
  if (fd < 0) fail_with(path, std::strerror(errno));
  const int error = flock(fd, LOCK_SH | LOCK_NB) == 0 ? 0 : errno;
  close(fd);
  if (error != 0 && error != EWOULDBLOCK && error != EINTR) fail_with(path, std::strerror(error));
  return error != 0;
}

// The type in the kernel's memory, because a daemon that was shut down does not answer.
mode_t type_of(const std::string& path) {
  struct statx st {};
  if (statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC, STATX_TYPE, &st) != 0) {
    fail_with(path, std::strerror(errno));
  }
  return st.stx_mode;
}

}  // namespace

bool wait_command(const std::string& path, std::optional<std::chrono::milliseconds> timeout) {
  std::string source = path;
  mode_t type = type_of(path);
  if (S_ISDIR(type)) {
    const auto mount = source_of(path);
    if (!mount) fail_with(path, "no lazyfs is mounted there");
    source = *mount;
    type = type_of(source);
  }
  const auto start = std::chrono::steady_clock::now();
  while (is_in_use(source, S_ISBLK(type))) {
    if (timeout && std::chrono::steady_clock::now() - start >= *timeout) return false;
    std::this_thread::sleep_for(kBetweenTries);
  }
  return true;
}

}  // namespace lazyfs
