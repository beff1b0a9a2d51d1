// The inodes with changes that the tree lacks, oldest first.
#pragma once

#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "fs/inode/inode.h"

namespace lazyfs::fs {

// A time past every change: as `before` it selects all dirty inodes.
inline constexpr std::chrono::nanoseconds kEver = std::chrono::nanoseconds::max();

// Invariant: an inode is in the list, or taken by a thread that has not begun with it, exactly
// while its on_dirty_list is set, which its lock guards. So it is in the list at most once.
// The list holds a reference to each. Adding needs no memory. Thread-safe; mu_ is a leaf lock.
class DirtyList {
 public:
  DirtyList() = default;
  ~DirtyList() {
    while (take(kEver, end_)) continue;
  }
  DirtyList(const DirtyList&) = delete;
  DirtyList& operator=(const DirtyList&) = delete;

  struct Entry {
    InodeRef inode;
    std::chrono::nanoseconds since;  // when it became dirty
  };
  // Number of an addition; the numbers of entries are consecutive.
  using Sequence = std::uint64_t;

  void add(const InodeRef& inode, std::chrono::nanoseconds now) REQUIRES(inode->mu) EXCLUDES(mu_) {
    if (inode->on_dirty_list) return;
    inode->on_dirty_list = true;
    MutexLock lock(mu_);
    entries_.push_back(hooked({inode, now}));
    ++end_;
  }

  // Removes and returns the oldest inode, if it became dirty at or before the time `before` and its
  // number is below `end`. REQUIRES: the caller clears on_dirty_list under the inode's lock before
  // it looks at the inode's changes, or else puts the entry back.
  std::optional<Entry> take(std::chrono::nanoseconds before, Sequence end) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (entries_.empty() || entries_.front().dirty_since > before) return std::nullopt;
    if (end_ - entries_.size() >= end) return std::nullopt;
    return unhooked(entries_.begin());
  }

  // Puts the entry where its age belongs. REQUIRES: on_dirty_list has been set since take().
  void put_back(Entry entry) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    insert_locked(std::move(entry));
  }

  // As put_back(), for a taken inode whose on_dirty_list was cleared: in place of the entry that
  // add() may have made since. REQUIRES: no other thread has taken that entry.
  void add_again(const InodeRef& inode, std::chrono::nanoseconds since) REQUIRES(inode->mu)
      EXCLUDES(mu_) {
    const bool is_listed = std::exchange(inode->on_dirty_list, true);
    MutexLock lock(mu_);
    if (is_listed) unhooked(entries_.iterator_to(*inode));
    insert_locked({inode, since});
  }

  // The number of the next addition.
  Sequence end() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return end_;
  }

  std::size_t size() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return entries_.size();
  }

 private:
  using Inodes = boost::intrusive::list<Inode>;

  void insert_locked(Entry entry) REQUIRES(mu_) {
    const auto is_younger = [&](const Inode& other) { return other.dirty_since > entry.since; };
    const auto at = std::ranges::find_if(entries_, is_younger);
    entries_.insert(at, hooked(std::move(entry)));
  }
  // The list takes over the entry's reference, and gives it back.
  static Inode& hooked(Entry entry) {
    const auto [table, inode] = entry.inode.release();
    inode->dirty_table = table;
    inode->dirty_since = entry.since;
    return *inode;
  }
  Entry unhooked(Inodes::iterator at) REQUIRES(mu_) {
    Inode& inode = *at;
    entries_.erase(at);
    return {InodeRef(inode.dirty_table, &inode), inode.dirty_since};
  }

  mutable Mutex mu_;
  Inodes entries_ GUARDED_BY(mu_);
  Sequence end_ GUARDED_BY(mu_) = 0;  // one past the last entry's number
};

}  // namespace lazyfs::fs
