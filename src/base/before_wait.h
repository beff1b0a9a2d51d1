// What a thread does before it waits for a disk, and whether it may wait. One that takes requests
// lets another thread take the next ones, or may not wait; other threads do nothing.
#pragma once

#include <functional>

namespace lazyfs {

// REQUIRES: called before each wait that may last as long as a request to a disk. The caller may
// hold locks, but not the leaf lock that the thread's action takes.
void about_to_wait();

// While it exists, about_to_wait() calls `action` on the thread that made it. There is at most one
// for each thread, and `action` must outlive it.
class BeforeWait {
 public:
  explicit BeforeWait(const std::function<void()>& action);
  ~BeforeWait();
  BeforeWait(const BeforeWait&) = delete;
  BeforeWait& operator=(const BeforeWait&) = delete;
};

// False on a thread that must not wait for a disk: a read of data that would fails with kWouldWait.
bool may_wait();

// While it exists, the thread that made it must not wait for a disk to read data.
class MustNotWait {
 public:
  MustNotWait();
  ~MustNotWait();
  MustNotWait(const MustNotWait&) = delete;
  MustNotWait& operator=(const MustNotWait&) = delete;
};

}  // namespace lazyfs
