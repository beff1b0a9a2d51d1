#include "base/before_wait.h"

#include <gtest/gtest.h>

#include <thread>

namespace lazyfs {
namespace {

TEST(BeforeWaitTest, ItsActionIsThatOfItsThreadWhileItExists) {
  int waits = 0;
  const std::function<void()> count = [&waits] { ++waits; };
  about_to_wait();
  {
    const BeforeWait before_wait(count);
    std::jthread(about_to_wait).join();
    EXPECT_EQ(waits, 0);
    about_to_wait();
    about_to_wait();
  }
  about_to_wait();
  EXPECT_EQ(waits, 2);
}

}  // namespace
}  // namespace lazyfs
