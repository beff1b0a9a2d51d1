#include "fuse/session/remount.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fuse/requests/control.h"

namespace lazyfs::fuse {
namespace {

// Sends the daemon a request, and returns the reason why nothing was changed, which the answer has;
// empty on success.
template <class Answer>
std::string send(const std::string& mount_point, unsigned long request, Answer answer) {
  const int fd = open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return std::strerror(errno);
  const bool is_answered = ioctl(fd, request, &answer) == 0;
  std::string reason = is_answered      ? answer.reason
                       : errno == ENOTTY ? "no lazyfs is mounted there"
                                         : std::strerror(errno);
  close(fd);
  return reason;
}

std::string send_options(const std::string& mount_point, const std::vector<std::string>& lists) {
  OptionsChange change;
  std::string joined;
  for (const std::string& list : lists) joined += (joined.empty() ? "" : ",") + list;
  if (joined.size() >= sizeof change.options) return "too many options";
  joined.copy(change.options, sizeof change.options - 1);
  return send(mount_point, kChangeOptionsRequest, change);
}

unsigned long mount_flags_of(const Options& options) {
  // The kernel keeps all flags of access times if none is named. MS_RELATIME, which it shows of a
  // mount with strictatime, too, ends noatime.
  unsigned long flags = MS_REMOUNT | MS_RELATIME | (options.volume.read_only ? MS_RDONLY : 0);
  for (const std::string& option : options.session.kernel) {
    if (option == "nodev") flags |= MS_NODEV;
    if (option == "nosuid") flags |= MS_NOSUID;
    if (option == "noexec") flags |= MS_NOEXEC;
    if (option == "noatime") flags |= MS_NOATIME;
    if (option == "nodiratime") flags |= MS_NODIRATIME;
    if (option == "sync") flags |= MS_SYNCHRONOUS;
    if (option == "dirsync") flags |= MS_DIRSYNC;
  }
  return flags;
}

}  // namespace

int remount(const DaemonPlan& plan, const std::vector<std::string>& lists) {
  struct statvfs now {};
  const std::string where = absolute(plan.mount_point);
  if (statvfs(where.c_str(), &now) != 0) return complain(plan, where + ": " + std::strerror(errno));
  const bool read_only = plan.options.volume.read_only;
  std::string reason = send_options(where, lists);
  if (!reason.empty()) return complain(plan, where + ": " + reason);
  if ((now.f_flag & ST_RDONLY) != 0 && !read_only) {
    reason = send(where, kMakeWritableRequest, ChangeAnswer{});
    if (!reason.empty()) return complain(plan, where + ": cannot become writable: " + reason);
  }
  if (::mount(nullptr, where.c_str(), nullptr, mount_flags_of(plan.options), nullptr) != 0) {
    const bool is_in_use = errno == EBUSY && read_only;
    return complain(plan, where + ": " +
                              (is_in_use ? "a file is open for writing" : std::strerror(errno)));
  }
  if (!read_only) return 0;
  reason = send(where, kMakeReadOnlyRequest, ChangeAnswer{});
  if (reason.empty()) return 0;
  return complain(plan, where + ": changes are refused now, but not all is durable: " + reason);
}

}  // namespace lazyfs::fuse
