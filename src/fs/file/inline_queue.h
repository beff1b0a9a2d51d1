// The files whose last block an fsync has put into the tree, for the background to move it to a
// band (docs/small-contents.md).
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/mutex.h"
#include "base/types.h"

namespace lazyfs::fs {

// Ordered by the last addition, oldest first; an inode is in it at most once. It names inodes and
// holds no reference: one may be deleted meanwhile, or have no inline block any more.
// Thread-safe; mu_ is a leaf lock.
class InlineQueue {
 public:
  struct Entry {
    InodeNo inode;
    std::chrono::nanoseconds since;  // its last addition
  };

  void add(InodeNo inode, std::chrono::nanoseconds now) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const auto found = places_.find(inode);
    if (found != places_.end()) entries_.erase(found->second);
    places_[inode] = entries_.emplace(now, inode);
  }

  // Puts a taken entry where its age belongs, unless its inode was added meanwhile.
  void put_back(const Entry& entry) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (places_.contains(entry.inode)) return;
    places_[entry.inode] = entries_.emplace(entry.since, entry.inode);
  }

  // Removes and returns the oldest entry, if it was added at or before `before`, or if the queue
  // has more than `at_most`.
  std::optional<Entry> take(std::chrono::nanoseconds before, std::size_t at_most) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (entries_.empty()) return std::nullopt;
    const auto oldest = entries_.begin();
    const Entry entry{.inode = oldest->second, .since = oldest->first};
    if (entry.since > before && entries_.size() <= at_most) return std::nullopt;
    entries_.erase(oldest);
    places_.erase(entry.inode);
    return entry;
  }

  std::size_t size() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return entries_.size();
  }

 private:
  // By the last addition; of equal ones, the first is first.
  using Entries = std::multimap<std::chrono::nanoseconds, InodeNo>;

  mutable Mutex mu_;
  Entries entries_ GUARDED_BY(mu_);
  std::unordered_map<InodeNo, Entries::iterator> places_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::fs
