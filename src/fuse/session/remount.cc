#include "fuse/session/remount.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "fuse/requests/control.h"

namespace lazyfs::fuse {
namespace {

// Sends the daemon a request that answers with a ChangeAnswer. Returns the reason why nothing was
// changed; empty on success.
std::string change(const std::string& mount_point, unsigned long request) {
  const int fd = open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return std::strerror(errno);
  ChangeAnswer answer;
  const bool asked = ioctl(fd, request, &answer) == 0;
  std::string reason = asked ? answer.reason : std::strerror(errno);
  close(fd);
  return reason;
}

// Sends the daemon a request of control.h with a number. False: errno says why.
bool send_number(const std::string& mount_point, unsigned long request, std::uint32_t number) {
  const int fd = open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool changed = ioctl(fd, request, &number) == 0;
  const int why = errno;
  close(fd);
  errno = why;
  return changed;
}

}  // namespace

int remount(const DaemonPlan& plan) {
  struct statvfs now {};
  const std::string where = absolute(plan.mount_point);
  if (statvfs(where.c_str(), &now) != 0) return complain(plan, where + ": " + std::strerror(errno));
  const bool read_only = plan.options.volume.read_only;
  if ((now.f_flag & ST_RDONLY) != 0 && !read_only) {
    const std::string reason = change(where, kMakeWritableRequest);
    if (!reason.empty()) return complain(plan, where + ": cannot become writable: " + reason);
  }
  unsigned long flags = MS_REMOUNT | (read_only ? MS_RDONLY : 0);
  for (const std::string& option : plan.options.session.kernel) {
    if (option == "nodev") flags |= MS_NODEV;
    if (option == "nosuid") flags |= MS_NOSUID;
    if (option == "noexec") flags |= MS_NOEXEC;
    if (option == "noatime") flags |= MS_NOATIME;
    if (option == "sync") flags |= MS_SYNCHRONOUS;
    if (option == "dirsync") flags |= MS_DIRSYNC;
  }
  if (::mount(nullptr, where.c_str(), nullptr, flags, nullptr) != 0) {
    return complain(plan, where + ": " + std::strerror(errno));
  }
  const auto sync = static_cast<std::uint32_t>(plan.options.session.requests.sync);
  if (!send_number(where, kSyncChoiceRequest, sync)) {
    return complain(plan, where + ": sync or dirsync cannot be changed: " + std::strerror(errno));
  }
  if (read_only) {
    const std::string reason = change(where, kMakeReadOnlyRequest);
    if (reason.empty()) return 0;
    return complain(plan, where + ": changes are refused now, but not all is durable: " + reason);
  }
  const auto placement = static_cast<std::uint32_t>(plan.options.volume.placement);
  if (plan.options.has_placement && !send_number(where, kPlacementRequest, placement)) {
    return complain(plan, where + ": the placement cannot be changed: " + std::strerror(errno));
  }
  const std::uint32_t discard = plan.options.volume.discard ? 1 : 0;
  if (plan.options.has_discard && !send_number(where, kDiscardChoiceRequest, discard)) {
    return complain(plan, where + ": discard cannot be changed: " + std::strerror(errno));
  }
  return 0;
}

}  // namespace lazyfs::fuse
