#include "base/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/types.h"
#include "test/support/mapping.h"

namespace lazyfs {
namespace {

constexpr std::size_t kBytes = kLargePageBytes / 2;

TEST(BufferPoolTest, BuffersOfALargePageDoNotOverlap) {
  BufferPool pool(kBytes);
  const BufferPool::Loan first = pool.lend(), second = pool.lend();
  EXPECT_EQ(first.bytes().size(), kBytes);
  EXPECT_EQ(second.bytes().data(), first.bytes().data() + kBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.bytes().data()) % kLargePageBytes, 0u);
  EXPECT_EQ(pool.held_bytes(), kLargePageBytes);
  if (kernel_has_large_pages()) {
    EXPECT_TRUE(mapping_at(first.bytes().data()).is_for_large_pages);
  }
}

TEST(BufferPoolTest, LendsFirstWhatWasGivenBackLast) {
  BufferPool pool(kBytes);
  const BufferPool::Loan kept = pool.lend();
  const std::byte* at = nullptr;
  for (int i = 0; i < 10; ++i) {
    const BufferPool::Loan loan = pool.lend();
    if (i > 0) {
      EXPECT_EQ(loan.bytes().data(), at);
    }
    at = loan.bytes().data();
  }
  EXPECT_EQ(pool.held_bytes(), kLargePageBytes);
}

TEST(BufferPoolTest, ALoanIsGivenBackOnce) {
  BufferPool pool(kLargePageBytes);
  {
    BufferPool::Loan first = pool.lend();
    BufferPool::Loan second = std::move(first);
    first = std::move(second);
    second = pool.lend();
    second = BufferPool::Loan();
  }
  const BufferPool::Loan a = pool.lend(), b = pool.lend();
  EXPECT_NE(a.bytes().data(), b.bytes().data());
  EXPECT_EQ(pool.held_bytes(), 2 * kLargePageBytes);
}

TEST(BufferPoolDeathTest, DiesOfABufferOnLoanAtItsEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end_too_early = [] {
    BufferPool::Loan loan;
    BufferPool pool(kBytes);
    loan = pool.lend();
  };
  EXPECT_DEATH(end_too_early(), "invariant violated");
}

TEST(BufferPoolTest, ThreadsNeverShareABuffer) {
  BufferPool pool(kBlockBytes);
  const auto work = [&pool](std::byte mark) {
    for (int round = 0; round < 2000; ++round) {
      const BufferPool::Loan loan = pool.lend();
      std::memset(loan.bytes().data(), static_cast<int>(mark), loan.bytes().size());
      EXPECT_EQ(std::set(loan.bytes().begin(), loan.bytes().end()), std::set{mark});
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i <= 4; ++i) threads.emplace_back(work, static_cast<std::byte>(i));
}

}  // namespace
}  // namespace lazyfs
