#include "base/time_slice.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

namespace lazyfs {
namespace {

struct Attributes {  // the kernel's sched_attr
  std::uint32_t size, policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime_ns, deadline, period;
};

Attributes attributes() {
  Attributes found{};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, &found, sizeof found, 0), 0);
  return found;
}

bool kernel_has_slices_of_threads() {
  utsname names{};
  int major = 0, minor = 0;
  if (uname(&names) != 0 || std::sscanf(names.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 12);
}

TEST(TimeSliceTest, ShortSlicesAreThoseOfTheThreadAndOfThreadsItMakes) {
  if (!kernel_has_slices_of_threads()) GTEST_SKIP() << "needs Linux 6.12";
  const Attributes before = attributes();
  std::jthread([&before] {
    shorten_time_slice();
    EXPECT_EQ(attributes().runtime_ns, 100'000u);
    EXPECT_EQ(attributes().policy, before.policy);
    EXPECT_EQ(attributes().nice, before.nice);
    std::jthread([] { EXPECT_EQ(attributes().runtime_ns, 100'000u); }).join();
  }).join();
  EXPECT_EQ(attributes().runtime_ns, before.runtime_ns);
}

TEST(TimeSliceTest, ARealtimeThreadStaysAsItIs) {
  std::jthread([] {
    const sched_param priority{.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_RR, &priority) != 0) GTEST_SKIP() << "needs root";
    shorten_time_slice();
    EXPECT_EQ(sched_getscheduler(0), SCHED_RR);
    EXPECT_EQ(attributes().priority, 1u);
  }).join();
}

}  // namespace
}  // namespace lazyfs
