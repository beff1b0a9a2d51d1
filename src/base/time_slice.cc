#include "base/time_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "base/log.h"

namespace lazyfs {
namespace {

constexpr std::uint64_t kSliceNs = 100'000;

// The kernel's sched_attr: <linux/sched/types.h> and <sched.h> cannot be included together.
struct Attributes {
  std::uint32_t size = sizeof(Attributes), policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0, deadline = 0, period = 0;
};
static_assert(sizeof(Attributes) == 48);  // SCHED_ATTR_SIZE_VER0

}  // namespace

// glibc 2.36 has no functions for these system calls.
void shorten_time_slice() {
  Attributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return;
  attributes.runtime_ns = kSliceNs;
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) log::debug("the time slice stays long");
}

}  // namespace lazyfs
