#include "device/discard_turn.h"

#include <gtest/gtest.h>

#include <functional>
#include <semaphore>
#include <thread>

#include "base/before_wait.h"
#include "test/support/result_printer.h"
#include "test/support/test_folder.h"

namespace lazyfs::device {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{256} << 20;  // several calls of the kernel

TEST(DiscardTurnTest, AnAppendMakesThisDiscardEndEarlyAndNotTheNext) {
  const TestFolder folder;
  Backing backing = *Backing::make((folder.path() / "image").string());
  ASSERT_EQ(backing.become_hole(kBytes), ok());
  Mutex mu;
  CondVar ended;
  DiscardTurn turn;
  turn.begin();
  std::binary_semaphore waits{0};
  std::jthread append([&] {
    const std::function<void()> note = [&] { waits.release(); };
    const BeforeWait before_wait(note);
    MutexLock lock(mu);
    turn.await_end(mu, ended);
    EXPECT_FALSE(turn.is_running());
  });
  waits.acquire();
  EXPECT_EQ(turn.run(backing, 0, kBytes, mu, ended), 0u);
  append.join();
  turn.begin();
  EXPECT_EQ(turn.run(backing, 0, kBytes, mu, ended), kBytes);
}

}  // namespace
}  // namespace lazyfs::device
