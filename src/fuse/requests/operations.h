// The table of request handlers, for libfuse.
#pragma once

#include <cstddef>

struct fuse_lowlevel_ops;  // libfuse's

namespace lazyfs::fuse {

// The largest WRITE or READ: libfuse offers the kernel 256 pages.
inline constexpr std::size_t kMaxWriteBytes = std::size_t{1} << 20;

// The session's user data must be a RequestContext*.
const fuse_lowlevel_ops& operations();

}  // namespace lazyfs::fuse
