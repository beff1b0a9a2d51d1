// One open file: what Volume::open() and create() give, and release() ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "fs/inode/inode.h"

namespace lazyfs::fs {

// Each open file reports each write-back error of its inode that came after it was opened: once by
// fsync, and until then at each close. (Of several duplicates of a descriptor one may be closed
// long before fsync is called on another.) Thread-safe but for detach().
struct OpenFile {
  explicit OpenFile(InodeRef opened)
      : inode(std::move(opened)), errors_seen(inode->write_errors.load()) {}

  // The error that is still to be reported. It stays unreported.
  Result<> pending_error() const {
    if (!inode || errors_seen.load() == inode->write_errors.load()) return ok();
    return fail(inode->last_write_error.load());
  }
  // As pending_error(), but the error then counts as reported.
  Result<> take_error() {
    if (!inode) return ok();
    const std::uint64_t errors = inode->write_errors.load();
    if (errors_seen.exchange(errors) == errors) return ok();
    return fail(inode->last_write_error.load());
  }

  // For a file that stays open when its volume ends: from now on it reports no error. REQUIRES: no
  // other call is running.
  void detach() { inode = InodeRef(); }

  InodeRef inode;  // null: detached
  std::atomic<std::uint64_t> errors_seen;  // of Inode::write_errors
};

}  // namespace lazyfs::fs
