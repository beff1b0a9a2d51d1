// What is mounted where, by /proc/self/mountinfo, and whether the daemon of a mount is alive.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lazyfs::fuse {

struct MountEntry {
  int id = 0;  // no two mounts have the same one at a time
  std::string point;
  dev_t device = 0;         // of its filesystem, as st_dev
  unsigned long flags = 0;  // of mount(2): those of the mount and of its filesystem
  unsigned long filesystem_flags = 0;  // which all mounts of the filesystem share
};

// The mount on top at `point`, an absolute path; nothing when there is none, or the table cannot be
// read.
std::optional<MountEntry> mount_at(const std::string& point);
// The number of the mount on top at `path`, which is relative to `folder` as for openat(2); of
// `folder` itself if `path` is empty. Since Linux 6.8 no other mount ever gets the same number;
// before, none has it at the same time. Asks no daemon.
std::optional<std::uint64_t> mount_number(int folder, const std::string& path);
// A mount of this device.
std::optional<MountEntry> mount_of(dev_t device);
// Of a mount of FUSE: the name of its folder in the kernel's control filesystem.
std::uint64_t connection_number(const MountEntry& mount);
// Whether the mount at `point` is one of FUSE whose daemon has died.
bool is_dead(const std::string& point);

}  // namespace lazyfs::fuse
