// The inodes with changes that the tree does not have yet, oldest first.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/mutex.h"
#include "fs/inode/inode.h"

namespace lazyfs::fs {

// Older than everything: for those who want all that is dirty.
inline constexpr std::chrono::nanoseconds kEver = std::chrono::nanoseconds::max();

// Invariant: an inode is in the list exactly while its on_dirty_list is set, which its lock guards;
// so it is in the list at most once. Thread-safe; mu_ is a leaf lock.
class DirtyList {
 public:
  // Inodes are numbered as they come; a number is never given twice.
  using Sequence = std::uint64_t;

  // Requires the inode's exclusive lock.
  void add(const InodeRef& inode, std::chrono::nanoseconds now) EXCLUDES(mu_) {
    if (inode->on_dirty_list) return;
    inode->on_dirty_list = true;
    MutexLock lock(mu_);
    entries_.push_back({inode, now});
    ++end_;
  }

  // Takes the oldest inode out if it has been dirty since `before` or longer, and came before
  // `end`. The caller clears on_dirty_list under the inode's lock, before it looks at what is
  // dirty.
  std::optional<InodeRef> take(std::chrono::nanoseconds before, Sequence end) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (entries_.empty() || entries_.front().since > before) return std::nullopt;
    if (end_ - entries_.size() >= end) return std::nullopt;
    InodeRef inode = std::move(entries_.front().inode);
    entries_.pop_front();
    return inode;
  }

  // What is added from now on has this number or a higher one.
  Sequence end() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return end_;
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
  Sequence end_ GUARDED_BY(mu_) = 0;  // one past the last entry's number; they are consecutive
};

}  // namespace lazyfs::fs
