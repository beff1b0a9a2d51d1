// Errors of data that the kernel sent after write(2) had succeeded. The kernel reports them by
// fsync and close. A program that only writes must see the error too: so the kernel is made to ask
// for the file's attributes before the next write(2), and gets the error as the answer. Perhaps no
// program does any of these before the kernel forgets the file. So each late error is logged and
// counted when it occurs.
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
  static constexpr std::size_t kFilesMax = 1024;  // errors of further files are dropped

  // Does nothing for lack of memory.
  void note(InodeNo inode, Errc error) noexcept EXCLUDES(mu_);
  // Returns the latest error of the file, and drops it.
  std::optional<Errc> take(InodeNo inode) EXCLUDES(mu_);
  // The file's error was reported otherwise, or nobody has the file open.
  void drop(InodeNo inode) EXCLUDES(mu_);

 private:
  Mutex mu_;
  std::unordered_map<std::uint64_t, Errc> errors_ GUARDED_BY(mu_);
  std::atomic<bool> any_{false};  // false: take() and drop() need no lock
};

}  // namespace lazyfs::fuse
