// The kinds of requests, and how many of each were handled.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <string_view>

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
  void add(Operation operation) {
    counts_[static_cast<std::size_t>(operation)].fetch_add(1, std::memory_order_relaxed);
  }
  std::uint64_t of(Operation operation) const {
    return counts_[static_cast<std::size_t>(operation)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kOperationCount> counts_{};
};

}  // namespace lazyfs::fuse
