#include "fuse/session/mount_watcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "fuse/session/mount_table.h"

namespace lazyfs::fuse {
namespace {

// Other mounts may come and go all the time, and each look reads the whole table.
constexpr int kBetweenLooksMs = 100;

std::optional<dev_t> device_of_mount_at(const std::string& point) {
  const auto mount = mount_at(point);
  return mount ? std::optional(mount->device) : std::nullopt;
}

}  // namespace

MountWatcher::MountWatcher(const std::string& mount_point, bool read_only,
                           std::function<void(bool)> changed)
    : changed_(std::move(changed)),
      table_fd_(open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)),
      stop_fd_(eventfd(0, EFD_CLOEXEC)),
      device_(device_of_mount_at(mount_point)),
      read_only_(read_only) {
  if (table_fd_ >= 0 && stop_fd_ >= 0 && device_) {
    if (auto thread = start_thread([this] { run(); })) thread_ = *std::move(thread);
  }
  if (!thread_.joinable()) log::warn("fuse: a remount by the kernel alone will not be noticed");
}

MountWatcher::~MountWatcher() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    if (write(stop_fd_, &one, sizeof one) != sizeof one) log::error("fuse: the watcher hangs");
    thread_.join();
  }
  if (table_fd_ >= 0) close(table_fd_);
  if (stop_fd_ >= 0) close(stop_fd_);
}

// Waits for `events` of the table. False: the watcher ends.
bool MountWatcher::wait_for(int events, int timeout_ms) const {
  pollfd wait[] = {{.fd = stop_fd_, .events = POLLIN},
                   {.fd = table_fd_, .events = static_cast<short>(events)}};
  const nfds_t count = events != 0 ? 2 : 1;
  poll(wait, count, timeout_ms);  // after a signal the table is looked at once more
  return wait[0].revents == 0;
}

void MountWatcher::run() {
  while (wait_for(POLLPRI, -1)) {
    for (bool has_looked = false; !has_looked;) {
      has_looked = try_to_look();
      if (!wait_for(0, kBetweenLooksMs)) return;
    }
  }
}

// False: memory was short.
bool MountWatcher::try_to_look() {
  try {
    look();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void MountWatcher::look() {
  if (!device_) return;
  MutexLock lock(mu_);
  const auto mount = mount_of(*device_);
  if (!mount) return;  // unmounted
  const bool read_only = (mount->filesystem_flags & MS_RDONLY) != 0;
  if (read_only == read_only_) return;
  changed_(read_only);
  read_only_ = read_only;
}

}  // namespace lazyfs::fuse
