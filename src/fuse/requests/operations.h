// The table of requests that we answer, for libfuse.
#pragma once

struct fuse_lowlevel_ops;  // libfuse's

namespace lazyfs::fuse {

// The session's user data must be a Face*.
const fuse_lowlevel_ops& operations();

}  // namespace lazyfs::fuse
