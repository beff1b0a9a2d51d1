// Lets code that waits for a disk notify the thread's owner first, and ask whether it may wait. A
// thread that takes requests hands the next requests to another thread before it waits, or must not
// wait. Other threads do nothing.
#pragma once

#include <functional>

namespace lazyfs {

// REQUIRES: called before each wait that may last as long as a request to a disk. The caller may
// hold locks, but not the leaf lock that the thread's action takes.
void about_to_wait();

// While this object exists, about_to_wait() calls `action` on the thread that made the object.
// REQUIRES: the thread has no other such object; `action` outlives this one.
class BeforeWait {
 public:
  explicit BeforeWait(const std::function<void()>& action);
  ~BeforeWait();
  BeforeWait(const BeforeWait&) = delete;
  BeforeWait& operator=(const BeforeWait&) = delete;
};

// False on a thread that must not wait for a disk. There a read of file data fails with kWouldWait
// if it would have to wait.
bool may_wait();

// While this object exists, the thread that made it must not wait for a disk to read data.
class MustNotWait {
 public:
  MustNotWait();
  ~MustNotWait();
  MustNotWait(const MustNotWait&) = delete;
  MustNotWait& operator=(const MustNotWait&) = delete;
};

}  // namespace lazyfs
