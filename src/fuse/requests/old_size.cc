#include "fuse/requests/old_size.h"

#include <algorithm>

#include "fuse/requests/handlers.h"

namespace lazyfs::fuse {

Result<> OldSize::note(fs::Volume& volume) {
  if (size_ || !context_.settings.writeback_cache) return ok();
  ASSIGN_OR_RETURN(const fs::Attributes now, volume.get_attributes(inode_));
  size_ = now.size;
  return ok();
}

void OldSize::restore(std::uint64_t cached_end) noexcept {
  if (!size_) return;
  const auto done = run_guarded(context_, Operation::setattr, [&](fs::Volume& volume) -> Result<> {
    ASSIGN_OR_RETURN(const fs::Attributes now, volume.get_attributes(inode_));
    const std::uint64_t size = std::max(*size_, std::min(now.size, cached_end));
    if (size != now.size) TRY(volume.set_attributes(inode_, {.size = size}));
    return ok();
  });
  if (!done) {
    log::error("fuse: the kernel may show another size of inode {} than the volume has: {}",
               inode_.value, describe(done.error()));
  }
}

}  // namespace lazyfs::fuse
