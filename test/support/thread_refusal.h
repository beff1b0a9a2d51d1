// Runs part of a test where the system refuses threads.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lazyfs {

// A limit on processes holds for no privileged user. Sanitizers have threads of their own.
inline bool can_refuse_threads() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return geteuid() == 0;
#endif
}

// The calling process may have this many threads besides its first one from now on.
inline void allow_threads(unsigned count) {
  rlimit limit{};
  getrlimit(RLIMIT_NPROC, &limit);
  limit.rlim_cur = count + 1;
  setrlimit(RLIMIT_NPROC, &limit);
}

// Runs `body` in a process of a user that no other process has, and that may have `count` threads.
// Returns 0 if `body` returns true, else the status of the process. REQUIRES: can_refuse_threads();
// the process has no other thread.
template <class Body>
int with_threads(unsigned count, Body body) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kUsersFrom = 1'000'000'000;
    const uid_t user = kUsersFrom + static_cast<uid_t>(getpid());
    if (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0) _exit(2);
    allow_threads(count);
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace lazyfs
