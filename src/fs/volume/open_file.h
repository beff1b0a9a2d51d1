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
// long before fsync is called on another.) Thread-safe.
struct OpenFile {
  explicit OpenFile(InodeRef opened)
      : inode(std::move(opened)), errors_seen(inode->write_errors.load()) {}

  // The error that is still to be reported, which stays to be reported.
  Result<> pending_error() const {
    if (errors_seen.load() == inode->write_errors.load()) return ok();
    return fail(inode->last_write_error.load());
  }
  // The same, and it is reported by this.
  Result<> take_error() {
    const std::uint64_t errors = inode->write_errors.load();
    if (errors_seen.exchange(errors) == errors) return ok();
    return fail(inode->last_write_error.load());
  }

  const InodeRef inode;
  std::atomic<std::uint64_t> errors_seen;  // of Inode::write_errors
};

}  // namespace lazyfs::fs
