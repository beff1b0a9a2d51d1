// The flags of chattr(1) and lsattr(1), as requests of linux/fs.h carry them: FS_IOC_GETFLAGS and
// FS_IOC_SETFLAGS, and FS_IOC_FSGETXATTR and FS_IOC_FSSETXATTR with a struct fsxattr.
//
// The kernel itself makes these requests for the calls of users, and checks the callers' rights
// (owner of the file; CAP_LINUX_IMMUTABLE for a change of immutable and append-only). Kernels
// before 5.13 pass the users' requests on unchecked: there they are refused.
#pragma once

#include <optional>

#include "fuse/requests/handlers.h"

namespace lazyfs::fuse {

// The flags as FS_*_FL of linux/fs.h. Back: nullopt if one is not of fs::kAllFlags.
std::uint32_t to_linux_flags(std::uint32_t flags);
std::optional<std::uint32_t> from_linux_flags(std::uint32_t linux_flags);
// The same as FS_XFLAG_*.
std::uint32_t to_xflags(std::uint32_t flags);
std::optional<std::uint32_t> from_xflags(std::uint32_t xflags);

// True: `command` is one of these requests, and was or will be answered.
bool answer_flags_request(fuse_req_t req, fuse_ino_t ino, unsigned command, const void* in,
                          std::size_t in_size, std::size_t out_size);

// Fails with kNotPermitted for an open(2) with these flags of a file that may not be written, or
// appended to only.
Result<> check_open(fs::Volume& volume, InodeNo inode, int open_flags);

}  // namespace lazyfs::fuse
