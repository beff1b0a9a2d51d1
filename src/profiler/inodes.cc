#include "profiler/inodes.h"

#include "base/check.h"

namespace lazyfs::profiler {

Inode& InodeTable::remember(Descriptor file, const struct stat& attributes) {
  MutexLock lock(mu_);
  const std::pair key(attributes.st_dev, attributes.st_ino);
  const auto found = inodes_.find(key);
  if (found != inodes_.end()) {
    ++found->second.lookups;
    return found->second;
  }
  return inodes_.emplace(key, Inode{std::move(file), key.first, key.second, 1}).first->second;
}

void InodeTable::forget(Inode& inode, std::uint64_t lookups) {
  decltype(inodes_)::node_type ended;  // closed without the lock: this may free a deleted file
  MutexLock lock(mu_);
  CHECK(inode.lookups >= lookups);
  inode.lookups -= lookups;
  if (inode.lookups == 0) ended = inodes_.extract({inode.device, inode.number});
}

}  // namespace lazyfs::profiler
