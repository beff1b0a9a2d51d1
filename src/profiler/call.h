// The calls that the profiler counts, under the names of libfuse's high-level library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lazyfs::profiler {

enum class Call : std::uint8_t {
  kChmod, kChown, kCopyFileRange, kCreate, kFallocate, kFlush, kFsync, kFsyncdir, kGetattr,
  kGetxattr, kIoctl, kLink, kListxattr, kMkdir, kMknod, kOpen, kOpendir, kRead, kReaddir, kReadlink,
  kRelease, kReleasedir, kRemovexattr, kRename, kRmdir, kSetxattr, kStatfs, kSymlink, kTruncate,
  kUnlink, kUtime, kWrite
};

// By the value of Call. The name of 2012 is kept where a later libfuse has another (utimens).
constexpr auto kCallNames = std::to_array<std::string_view>(
    {"chmod", "chown", "copy_file_range", "create", "fallocate", "flush", "fsync", "fsyncdir",
     "getattr", "getxattr", "ioctl", "link", "listxattr", "mkdir", "mknod", "open", "opendir",
     "read", "readdir", "readlink", "release", "releasedir", "removexattr", "rename", "rmdir",
     "setxattr", "statfs", "symlink", "truncate", "unlink", "utime", "write"});
constexpr std::size_t kCallCount = kCallNames.size();
static_assert(static_cast<std::size_t>(Call::kWrite) + 1 == kCallCount);

}  // namespace lazyfs::profiler
