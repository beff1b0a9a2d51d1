#include "base/thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>

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
