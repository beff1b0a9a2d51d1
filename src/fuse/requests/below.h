// Requests that libfuse 3.14 does not know, answered beneath it. What the kernel sends and wants is
// in include/uapi/linux/fuse.h of Linux; what the header of this system lacks of it is here.
#pragma once

#include "fuse/requests/face.h"
#include "fuse/transport/transport.h"

namespace lazyfs::fuse {

inline constexpr std::uint32_t kStatxOpcode = 52;  // Linux 6.6

// True when the request was answered on `fd`.
bool answer_below(Face& face, int fd, const Request& request);

// An answer without contents: 0 or an errno.
void answer_error(int fd, std::uint64_t unique, int error);

}  // namespace lazyfs::fuse
