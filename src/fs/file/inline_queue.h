// The files whose last block an fsync has put into the tree, for the background to move it to a
// band (docs/small-contents.md).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <list>
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
    entries_.push_back({inode, now});
    places_[inode] = std::prev(entries_.end());
  }

  // Puts a taken entry where its age belongs, unless its inode was added meanwhile.
  void put_back(const Entry& entry) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (places_.contains(entry.inode)) return;
    const auto is_younger = [&](const Entry& other) { return other.since > entry.since; };
    places_[entry.inode] = entries_.insert(std::ranges::find_if(entries_, is_younger), entry);
  }

  // Removes and returns the oldest entry, if it was added at or before `before`, or if the queue
  // has more than `at_most`.
  std::optional<Entry> take(std::chrono::nanoseconds before, std::size_t at_most) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (entries_.empty()) return std::nullopt;
    const Entry oldest = entries_.front();
    if (oldest.since > before && entries_.size() <= at_most) return std::nullopt;
    entries_.pop_front();
    places_.erase(oldest.inode);
    return oldest;
  }

  std::size_t size() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return entries_.size();
  }

 private:
  mutable Mutex mu_;
  std::list<Entry> entries_ GUARDED_BY(mu_);
  std::unordered_map<InodeNo, std::list<Entry>::iterator> places_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::fs
