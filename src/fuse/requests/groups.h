// The supplementary groups of the thread that a request is from.
#pragma once

#include <sys/types.h>

namespace lazyfs::fuse {

// Whether the thread has `group` among its supplementary groups, as /proc says; false when the
// thread has ended. fuse_req_getgroups() of libfuse 3.14 is not used: it searches what it has read
// of /proc as a C string, without the zero byte at the end.
bool has_group(pid_t thread, gid_t group);

}  // namespace lazyfs::fuse
