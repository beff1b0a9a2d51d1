// The size that a file had before a change of it that may fail half-way.
//
// Where the kernel caches writes, it takes no size of a file from the volume until it forgets the
// file. So the kernel shows the old size after a change that has failed, and the volume must have
// the old size too. What a truncation has cut off is lost, and reads as zeros.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "base/types.h"
#include "fuse/requests/context.h"

namespace lazyfs::fuse {

// Belongs to one request. The kernel makes no other request meanwhile that changes the size, but
// for data that was in its cache when the request began.
class OldSize {
 public:
  OldSize(RequestContext& context, InodeNo inode) : context_(context), inode_(inode) {}

  // Called before the change. A repeated call changes nothing.
  Result<> note(fs::Volume& volume);
  // Called after a change that has failed. Such data may come up to `cached_end`, and is not cut
  // off. REQUIRES: the kernel had written its data past `cached_end` when it made the request.
  void restore(std::uint64_t cached_end) noexcept;

 private:
  RequestContext& context_;
  const InodeNo inode_;
  std::optional<std::uint64_t> size_;
};

}  // namespace lazyfs::fuse
