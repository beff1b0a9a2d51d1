// What the kernel's requests meet: the volume, and what they share beside it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "fs/volume/volume.h"
#include "fuse/session/options.h"

struct fuse_session;  // libfuse's

namespace lazyfs::fuse {

#define LAZYFS_OPERATIONS(X)                                                                      \
  X(lookup)                                                                                       \
  X(forget)                                                                                       \
  X(getattr)                                                                                      \
  X(setattr)                                                                                      \
  X(readlink) X(mknod) X(mkdir) X(unlink) X(rmdir) X(symlink) X(rename) X(link) X(create) X(open) \
      X(read) X(write) X(flush) X(release) X(fsync) X(opendir) X(readdir) X(readdirplus)          \
          X(releasedir) X(fsyncdir) X(statfs) X(setxattr) X(getxattr) X(listxattr) X(removexattr) \
              X(ioctl) X(syncfs) X(statx) X(tmpfile) X(fallocate) X(lseek) X(copy_file_range)

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

// Keeps the last few snapshots of the statistics, for readers that fetch them piece by piece.
// Thread-safe; mu_ is a leaf lock.
class SnapshotShelf {
 public:
  std::uint64_t put(std::string text);
  // A copy of up to `length` bytes at `offset`, and the length of the whole; nothing when the
  // snapshot is gone.
  struct Piece {
    std::string text;
    std::size_t total = 0;
  };
  std::optional<Piece> get(std::uint64_t snapshot, std::size_t offset, std::size_t length) const;

 private:
  static constexpr std::size_t kKept = 8;
  mutable Mutex mu_;
  std::uint64_t last_ GUARDED_BY(mu_) = 0;
  std::array<std::string, kKept> texts_ GUARDED_BY(mu_);
};

// One for each mount; the user data of its libfuse session. Constant after the INIT request, but
// for the counters and the shelf.
struct Face {
  Face(fs::Volume& its_volume, SessionOptions its_options)
      : volume(its_volume), options(std::move(its_options)), sync(options.sync) {}

  fs::Volume& volume;
  SessionOptions options;
  std::atomic<SyncChoice> sync;  // a remount changes it
  std::function<std::string()> transport_json = [] { return std::string("{}"); };
  ::fuse_session* session = nullptr;
  OperationCounts counts{};
  SnapshotShelf snapshots{};
};

// The volume's statistics with the operations by kind and the transport's counters added.
std::string stats_json(const Face& face);

}  // namespace lazyfs::fuse
