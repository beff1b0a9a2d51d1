#include "fuse/requests/late_errors.h"

#include <new>

#include "base/log.h"

namespace lazyfs::fuse {

void LateErrors::note(InodeNo inode, Errc error) noexcept try {
  MutexLock lock(mu_);
  if (errors_.size() >= kFilesMax && !errors_.contains(inode.value)) return;
  errors_[inode.value] = error;
  any_.store(true, std::memory_order_release);
} catch (const std::bad_alloc&) {
  log::debug("fuse: no memory for the late error of inode {}", inode.value);
}

void LateErrors::drop(InodeNo inode) {
  if (!any_.load(std::memory_order_acquire)) return;
  MutexLock lock(mu_);
  errors_.erase(inode.value);
  any_.store(!errors_.empty(), std::memory_order_release);
}

std::optional<Errc> LateErrors::take(InodeNo inode) {
  if (!any_.load(std::memory_order_acquire)) return std::nullopt;
  MutexLock lock(mu_);
  const auto found = errors_.find(inode.value);
  if (found == errors_.end()) return std::nullopt;
  const Errc error = found->second;
  errors_.erase(found);
  any_.store(!errors_.empty(), std::memory_order_release);
  return error;
}

}  // namespace lazyfs::fuse
