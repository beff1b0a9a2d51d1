// Makes new files belong to the process that asked for them.
#pragma once

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>

namespace lazyfs::profiler {

// While it exists, this thread makes files as the caller of a request: with the caller's user,
// group and umask. The thread keeps its capabilities, because the kernel has checked the
// permissions, and the caller's other groups are not known here. Without capabilities (a daemon of
// another user than root) only the umask is set.
class Caller {
 public:
  explicit Caller(fuse_req_t request);
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

 private:
  const bool is_other_;  // the caller is not the daemon's user
};

}  // namespace lazyfs::profiler
