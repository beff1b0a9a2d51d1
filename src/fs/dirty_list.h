// The inodes with changes that the tree does not have yet, oldest first.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "base/mutex.h"
#include "fs/inode.h"

namespace lazyfs::fs {

// Invariant: an inode is in the list exactly while its on_dirty_list is set, which its lock guards; so it
// is in the list at most once. Thread-safe; mu_ is a leaf lock.
class DirtyList {
 public:
  // Requires the inode's exclusive lock.
  void add(const InodeRef& inode, std::chrono::nanoseconds now) EXCLUDES(mu_) {
    if (inode->on_dirty_list) return;
    inode->on_dirty_list = true;
    MutexLock lock(mu_);
    entries_.push_back({inode, now});
  }

  // Takes the oldest inode out if it has been dirty since `before` or longer. The caller clears
  // on_dirty_list under the inode's lock, before it looks at what is dirty.
  std::optional<InodeRef> take(std::chrono::nanoseconds before) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (entries_.empty() || entries_.front().since > before) return std::nullopt;
    InodeRef inode = std::move(entries_.front().inode);
    entries_.pop_front();
    return inode;
  }

  std::size_t size() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return entries_.size();
  }

 private:
  struct Entry {
    InodeRef inode;
    std::chrono::nanoseconds since;
  };
  mutable Mutex mu_;
  std::deque<Entry> entries_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::fs
