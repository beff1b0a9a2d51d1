#include "fuse/session/mount_table.h"

#include <fcntl.h>
#include <libmount/libmount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cerrno>
#include <memory>

#include "base/log.h"

namespace lazyfs::fuse {
namespace {

// STATX_MNT_ID_UNIQUE, which this system's headers may lack.
constexpr unsigned kStatxUniqueMountId = 0x4000;

using Table = std::unique_ptr<libmnt_table, decltype(&mnt_unref_table)>;

Table read_table() {
  Table table(mnt_new_table_from_file("/proc/self/mountinfo"), &mnt_unref_table);
  if (!table) log::warn("fuse: /proc/self/mountinfo cannot be read");
  return table;
}

unsigned long flags_of(const char* options) {
  unsigned long flags = 0;
  if (options) mnt_optstr_get_flags(options, &flags, mnt_get_builtin_optmap(MNT_LINUX_MAP));
  return flags;
}

std::optional<MountEntry> entry_of(libmnt_fs* found) {
  if (!found) return {};
  MountEntry entry{.id = mnt_fs_get_id(found),
                   .point = mnt_fs_get_target(found),
                   .device = mnt_fs_get_devno(found)};
  entry.filesystem_flags = flags_of(mnt_fs_get_fs_options(found));
  entry.flags = entry.filesystem_flags | flags_of(mnt_fs_get_vfs_options(found));
  return entry;
}

}  // namespace

std::optional<MountEntry> mount_at(const std::string& point) {
  const Table table = read_table();
  if (!table) return {};
  return entry_of(mnt_table_find_target(table.get(), point.c_str(), MNT_ITER_BACKWARD));
}

std::optional<std::uint64_t> mount_number(int folder, const std::string& path) {
  struct statx found {};
  constexpr int kFlags =
      AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC;
  constexpr unsigned kNumbers = STATX_MNT_ID | kStatxUniqueMountId;
  if (statx(folder, path.c_str(), kFlags, kNumbers, &found) != 0) return {};
  if ((found.stx_mask & kNumbers) == 0) return {};
  return found.stx_mnt_id;
}

std::optional<MountEntry> mount_of(dev_t device) {
  const Table table = read_table();
  if (!table) return {};
  return entry_of(mnt_table_find_devno(table.get(), device, MNT_ITER_FORWARD));
}

// The kernel's own number of the device (linux/kdev_t.h).
std::uint64_t connection_number(const MountEntry& mount) {
  constexpr unsigned kMinorBits = 20;
  return (std::uint64_t{major(mount.device)} << kMinorBits) | minor(mount.device);
}

// ECANCELED: the daemon's io_uring has ended, its connection not yet.
bool is_dead(const std::string& point) {
  struct statfs space {};
  return statfs(point.c_str(), &space) != 0 &&
         (errno == ENOTCONN || errno == ECONNABORTED || errno == ECANCELED);
}

}  // namespace lazyfs::fuse
