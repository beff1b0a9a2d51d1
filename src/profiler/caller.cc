#include "profiler/caller.h"

#include <cap-ng.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lazyfs::profiler {

namespace {

// umask belongs to all threads that share their folder; libcap-ng keeps a copy of the thread's
// capabilities.
void separate_thread() {
  ::unshare(CLONE_FS);
  ::capng_get_caps_process();
}

}  // namespace

Caller::Caller(fuse_req_t request)
    : is_other_(::geteuid() == 0 &&
                (fuse_req_ctx(request)->uid != 0 || fuse_req_ctx(request)->gid != 0)) {
  thread_local const bool is_separate = (separate_thread(), true);
  (void)is_separate;
  ::umask(fuse_req_ctx(request)->umask);
  if (!is_other_) return;
  ::setfsgid(fuse_req_ctx(request)->gid);
  ::setfsuid(fuse_req_ctx(request)->uid);  // drops the capabilities that belong to files
  ::capng_apply(CAPNG_SELECT_CAPS);        // takes them back
}

Caller::~Caller() {
  if (!is_other_) return;
  ::setfsuid(0);
  ::setfsgid(0);
}

}  // namespace lazyfs::profiler
