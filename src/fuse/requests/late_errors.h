// Errors of data that the kernel sent after write(2) had succeeded. The kernel reports them by
// fsync and close. So that a program that only writes ends too, the kernel is made to ask for the
// file's attributes before the next write(2), and is answered with the error.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "base/mutex.h"
#include "base/result.h"
#include "base/types.h"

namespace lazyfs::fuse {

// Thread-safe; mu_ is a leaf lock.
class LateErrors {
 public:
  static constexpr std::size_t kFilesMax = 1024;  // those of further files are not kept

  void note(InodeNo inode, Errc error) EXCLUDES(mu_);
  // The latest error of the file, once.
  std::optional<Errc> take(InodeNo inode) EXCLUDES(mu_);
  // The file's error was reported otherwise, or nobody has the file open.
  void drop(InodeNo inode) EXCLUDES(mu_);

 private:
  Mutex mu_;
  std::unordered_map<std::uint64_t, Errc> errors_ GUARDED_BY(mu_);
  std::atomic<bool> any_{false};  // so that take() need not lock in vain
};

}  // namespace lazyfs::fuse
