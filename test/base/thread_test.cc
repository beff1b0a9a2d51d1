#include "base/thread.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>

#include "base/fork_join.h"
#include "test/support/thread_refusal.h"

namespace lazyfs {
namespace {

using std::chrono::seconds;

class ManualClock final : public Clock {
 public:
  Timestamp now() override { return {}; }
  std::chrono::nanoseconds monotonic() override { return time; }
  std::chrono::nanoseconds time{seconds(100)};
};

TEST(StartThreadTest, TheThreadDoesItsWork) {
  int done = 0;
  auto thread = start_thread([&] { ++done; });
  ASSERT_TRUE(thread);
  thread->join();
  EXPECT_EQ(done, 1);
}

TEST(StartThreadTest, ARefusalIsAnError) {
  if (!can_refuse_threads()) GTEST_SKIP() << "only root can become another user";
  EXPECT_EQ(with_threads(0, [] {
              const auto thread = start_thread([] {});
              return !thread && thread.error() == Errc::kNoThread;
            }), 0);
}

TEST(StartThreadTest, CallersDoThePartsOfThreadsThatWereRefused) {
  if (!can_refuse_threads()) GTEST_SKIP() << "only root can become another user";
  for (const unsigned possible : {0u, 1u}) {
    EXPECT_EQ(with_threads(possible, [] {
                ForkJoin pool(3);
                std::array<std::atomic<int>, 10> done{};
                pool.run(done.size(), [&](std::size_t part) { ++done[part]; });
                return std::ranges::all_of(done, [](int times) { return times == 1; });
              }), 0);
  }
}

// Uses up the stack of the thread.
[[gnu::noinline]] int overflow(volatile char* above) {
  volatile char more[1024];
  more[0] = above ? *above : char{0};
  return more[0] != 0 ? 0 : overflow(more) + more[0];
}

// Runs `body` in a process where SIGSEGV is handled on the alternate stack. Returns its status.
template <class Body>
int exit_status(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    struct sigaction handler {};
    handler.sa_handler = [](int) { _exit(42); };
    handler.sa_flags = SA_ONSTACK;
    sigaction(SIGSEGV, &handler, nullptr);
    body();
    _exit(1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(SignalStackTest, AHandlerRunsAfterTheStackOfAThreadHasOverflowed) {
  EXPECT_EQ(exit_status([] {
              auto thread = start_thread([] { overflow(nullptr); });
              thread->join();
            }), 42);
}

TEST(SignalStackTest, AHandlerRunsAfterTheFirstThreadsStackHasOverflowed) {
  EXPECT_EQ(exit_status([] {
              const SignalStack signal_stack;
              overflow(nullptr);
            }), 42);
}

TEST(SignalStackTest, IsInUseWhileItExists) {
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  stack_t before{}, during{}, after{};
  ASSERT_EQ(sigaltstack(&none, &before), 0);  // a sanitizer may have set one
  {
    const SignalStack signal_stack, second;
    sigaltstack(nullptr, &during);
  }
  sigaltstack((before.ss_flags & SS_DISABLE) == 0 ? &before : nullptr, &after);
  EXPECT_EQ(during.ss_flags & SS_DISABLE, 0);
  EXPECT_EQ(after.ss_flags & SS_DISABLE, SS_DISABLE);
  unsigned char page = 0;
  EXPECT_NE(mincore(during.ss_sp, 1, &page), 0) << "its memory was not released";
}

TEST(SignalStackTest, LeavesAStackThatIsThere) {
  const SignalStack first;
  stack_t before{}, during{}, after{};
  sigaltstack(nullptr, &before);
  {
    const SignalStack second;
    sigaltstack(nullptr, &during);
  }
  sigaltstack(nullptr, &after);
  EXPECT_EQ(during.ss_sp, before.ss_sp);
  EXPECT_EQ(after.ss_sp, before.ss_sp);
}

TEST(ThreadLimitTest, ARefusalCountsForAWhile) {
  ManualClock clock;
  ThreadLimit limit(8, seconds(2), clock);
  EXPECT_EQ(limit.now(), 8u);
  limit.note_refusal(3, Errc::kNoThread);
  clock.time += seconds(1);
  EXPECT_EQ(limit.now(), 3u);
  limit.note_refusal(4, Errc::kNoThread);
  clock.time += seconds(1);
  EXPECT_EQ(limit.now(), 4u);
  clock.time += seconds(1);
  EXPECT_EQ(limit.now(), 8u);
}

}  // namespace
}  // namespace lazyfs
