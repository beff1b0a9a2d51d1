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
// A mount of this device.
std::optional<MountEntry> mount_of(dev_t device);
// Of a mount of FUSE: the name of its folder in the kernel's control filesystem.
std::uint64_t connection_number(const MountEntry& mount);
// Whether the mount at `point` is one of FUSE whose daemon has died.
bool is_dead(const std::string& point);

}  // namespace lazyfs::fuse
