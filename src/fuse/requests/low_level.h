// Low-level operations that libfuse 3.14 does not know, answered without libfuse. The structures
// are those of Linux' include/uapi/linux/fuse.h; this system's copy lacks what is declared here.
#pragma once

#include "fuse/requests/context.h"
#include "fuse/transport/transport.h"

namespace lazyfs::fuse {

inline constexpr std::uint32_t kStatxOpcode = 52;  // Linux 6.6

// True when the request was answered.
bool answer_low_level(RequestContext& context, const Request& request);

// Replies with an errno or 0, and no contents.
void answer_error(RequestContext& context, std::uint64_t unique, int error);

}  // namespace lazyfs::fuse
