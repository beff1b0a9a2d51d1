// The user and the groups that a request comes from.
//
// On a mount that may be idmapped (option idmap) the kernel names the user and the group only in
// requests that make an inode. For other requests /proc names the user of the thread that waits for
// the answer: the machine's own user, not the one that an idmapped mount shows. The thread cannot
// end before the answer, so no other thread gets its number.
#pragma once

#include <sys/types.h>

#include <vector>

#include "fuse/requests/handlers.h"

namespace lazyfs::fuse {

inline constexpr uid_t kUnknownUser = static_cast<uid_t>(-1);
inline constexpr gid_t kUnknownGroup = static_cast<gid_t>(-1);

// The user and the groups that count for a thread's access to files.
struct ThreadIds {
  uid_t user = kUnknownUser;
  gid_t group = kUnknownGroup;
  std::vector<gid_t> more_groups;  // the supplementary ones

  bool has_group(gid_t one) const;
};

// By /proc; unknown if the thread has ended. fuse_req_getgroups() of libfuse 3.14 is not used: it
// searches its copy of /proc's text as a C string, without a zero byte at the end.
ThreadIds ids_of_thread(pid_t thread);

// The user that the request is from. Not for requests that a kernel thread sends for a user.
uid_t user_of(fuse_req_t req);
inline bool is_from_root(fuse_req_t req) { return user_of(req) == 0; }
// False where the kernel does not name the caller.
bool is_in_group(fuse_req_t req, gid_t group);

}  // namespace lazyfs::fuse
