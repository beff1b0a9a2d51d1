// Deletes inodes that have lost their last name and their last user.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "fs/file/core.h"

namespace lazyfs::fs {

// An inode that loses its last link gets an orphan record in the batch that removes its name; when
// the last reference is gone it comes here, and its items and that record go together, so that a
// crash at any point leaves either the record (and the next mount deletes the inode) or nothing.
//
// Thread-safe. mu_ is a leaf lock.
class Reaper {
 public:
  // `wake` is called when much work has come together: until then it waits for the next run(), so
  // that who removes a tree need not share the CPUs with the deleting of it. It must not block.
  explicit Reaper(std::function<void()> wake) : wake_(std::move(wake)) {}

  void add(InodeRef inode) EXCLUDES(mu_);
  // Deletes what is waiting, many inodes a batch. What the metadata log has no room for is tried
  // again at the next run: deleting others makes room. Other errors are logged, and the inode is
  // tried again at the next mount.
  void run(const Core& core) EXCLUDES(mu_);
  std::size_t waiting() const EXCLUDES(mu_);
  void drop_all() EXCLUDES(mu_);  // forgets the queue, before the inode table ends

 private:
  static constexpr std::size_t kMany = 131072;  // some 80 MiB of inodes

  const std::function<void()> wake_;
  mutable Mutex mu_;
  std::deque<InodeRef> queue_ GUARDED_BY(mu_);
  // For whose deletion the log had no room. The references keep them in the inode table, where
  // everybody sees that they are gone: the collector must not move what is being deleted.
  std::vector<InodeRef> left_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::fs
