// The kinds of requests, how many of each were handled, how long they took, the bytes of files that
// they carried, and how many late errors (late_errors.h) there were.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "base/time_histogram.h"

namespace lazyfs::fuse {

#define LAZYFS_OPERATIONS(X)                                                                   \
  X(lookup) X(forget) X(getattr) X(setattr) X(readlink) X(mknod) X(mkdir) X(unlink) X(rmdir)   \
  X(symlink) X(rename) X(link) X(create) X(open) X(read) X(write) X(flush) X(release) X(fsync) \
  X(opendir) X(readdir) X(readdirplus) X(releasedir) X(fsyncdir) X(statfs) X(setxattr)         \
  X(getxattr) X(listxattr) X(removexattr) X(ioctl) X(syncfs) X(statx) X(tmpfile) X(fallocate)  \
  X(lseek) X(copy_file_range)

enum class Operation : std::uint8_t {
#define X(name) name,
  LAZYFS_OPERATIONS(X)
#undef X
};

inline constexpr Operation kOperations[] = {
#define X(name) Operation::name,
    LAZYFS_OPERATIONS(X)
#undef X
};
inline constexpr std::size_t kOperationCount = std::size(kOperations);

std::string_view name_of(Operation operation);

// Thread-safe.
class OperationCounts {
 public:
  // `took`: with the commit that the mount options sync and dirsync ask for, but without the reply.
  void add(Operation operation, std::chrono::nanoseconds took) {
    times_[static_cast<std::size_t>(operation)].add(took);
  }
  void add_read(std::size_t bytes) { bytes_read_.fetch_add(bytes, std::memory_order_relaxed); }
  void add_late_error() { late_errors_.fetch_add(1, std::memory_order_relaxed); }
  void add_write(std::size_t bytes) { bytes_written_.fetch_add(bytes, std::memory_order_relaxed); }

  const TimeHistogram& of(Operation operation) const {
    return times_[static_cast<std::size_t>(operation)];
  }
  std::uint64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }
  std::uint64_t late_errors() const { return late_errors_.load(std::memory_order_relaxed); }
  std::uint64_t bytes_written() const { return bytes_written_.load(std::memory_order_relaxed); }

 private:
  std::array<TimeHistogram, kOperationCount> times_;
  std::atomic<std::uint64_t> bytes_read_{0}, bytes_written_{0}, late_errors_{0};
};

}  // namespace lazyfs::fuse
