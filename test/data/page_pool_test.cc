#include "data/page_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/large_pages.h"
#include "base/types.h"
#include "test/support/mapping.h"
#include "test/support/seed.h"

namespace lazyfs::data {
namespace {

std::vector<std::byte*> take(PagePool& pool, std::size_t count) {
  std::vector<std::byte*> pages;
  for (std::size_t i = 0; i < count; ++i) pages.push_back(pool.take());
  return pages;
}

void give_back(PagePool& pool, const std::vector<std::byte*>& pages) {
  for (std::byte* page : pages) pool.give_back(page);
}

TEST(PagePoolTest, PagesAreAlignedAndDistinct) {
  PagePool pool;
  const auto pages = take(pool, 1000);
  EXPECT_EQ(std::set(pages.begin(), pages.end()).size(), 1000u);
  for (std::byte* page : pages) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(page) % kBlockBytes, 0u);
    std::memset(page, 1, kBlockBytes);
  }
  give_back(pool, pages);
}

TEST(PagePoolTest, CountsPagesInUse) {
  PagePool pool;
  EXPECT_EQ(pool.used(), 0u);
  auto pages = take(pool, 3);
  EXPECT_EQ(pool.used(), 3u);
  pool.give_back(pages.back());
  pages.pop_back();
  EXPECT_EQ(pool.used(), 2u);
  give_back(pool, pages);
  EXPECT_EQ(pool.used(), 0u);
}

TEST(PagePoolTest, PagesTakenTogetherLieSideBySide) {
  PagePool pool;
  const auto pages = take(pool, 64);
  for (std::size_t i = 1; i < pages.size(); ++i) EXPECT_EQ(pages[i], pages[i - 1] + kBlockBytes);
  give_back(pool, pages);
}

TEST(PagePoolTest, PagesLieInLargePages) {
  if (!kernel_has_large_pages()) GTEST_SKIP() << "the kernel has no large pages";
  PagePool pool;
  std::byte* page = pool.take();
  EXPECT_TRUE(mapping_at(page).is_for_large_pages);
  pool.give_back(page);
}

TEST(PagePoolTest, PagesTakenTogetherLieSideBySideAlsoAfterSomeWereUsedBefore) {
  PagePool pool;
  give_back(pool, take(pool, 256));
  give_back(pool, take(pool, 200));
  std::vector<std::byte*> pages(64);
  pool.take(pages);
  for (std::size_t i = 1; i < pages.size(); ++i) EXPECT_EQ(pages[i], pages[i - 1] + kBlockBytes);
  pool.give_back(pages);
}

TEST(PagePoolTest, UsesWhatWasGivenBackBeforeItTakesMoreMemory) {
  PagePool pool;
  for (int round = 0; round < 10; ++round) give_back(pool, take(pool, 600));
  EXPECT_EQ(pool.held_bytes(), 2 * kLargePageBytes);
  pool.check_invariants();
}

TEST(PagePoolTest, TakesAndGivesNothingWhenAskedForNothing) {
  PagePool pool;
  pool.take(std::span<std::byte*>());
  pool.give_back(std::span<std::byte* const>());
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_EQ(pool.held_bytes(), 0u);
}

TEST(PagePoolTest, KeepsItsInvariantsInARandomOrder) {
  SCOPED_TRACE(seed_trace());
  std::mt19937_64 random(test_seed());
  PagePool pool;
  std::vector<std::byte*> mine;
  for (int i = 0; i < 2000; ++i) {
    if (mine.size() > 1500 || (!mine.empty() && random() % 2 == 0)) {
      std::swap(mine[random() % mine.size()], mine.back());
      pool.give_back(mine.back());
      mine.pop_back();
    } else {
      std::vector<std::byte*> more(1 + random() % 8);
      pool.take(more);
      mine.insert(mine.end(), more.begin(), more.end());
    }
    ASSERT_EQ(pool.used(), mine.size());
    if (i % 100 == 0) pool.check_invariants();
  }
  EXPECT_EQ(std::set(mine.begin(), mine.end()).size(), mine.size());
  give_back(pool, mine);
  pool.check_invariants();
}

TEST(PagePoolDeathTest, DiesOfAPageThatIsGivenBackTwiceOrIsNotItsOwn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  PagePool pool, other;
  std::byte* page = pool.take();
  EXPECT_DEATH(other.give_back(page), "invariant violated");
  pool.give_back(page);
  EXPECT_DEATH(pool.give_back(page), "invariant violated");
}

TEST(PagePoolTest, ThreadsNeverShareAPage) {
  PagePool pool;
  const auto work = [&pool](std::byte mark) {
    for (int round = 0; round < 200; ++round) {
      const auto pages = take(pool, 20);
      for (std::byte* page : pages) std::memset(page, static_cast<int>(mark), kBlockBytes);
      for (std::byte* page : pages) {
        EXPECT_EQ(page[0], mark);
        EXPECT_EQ(page[kBlockBytes - 1], mark);
      }
      give_back(pool, pages);
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i <= 4; ++i) threads.emplace_back(work, static_cast<std::byte>(i));
  threads.clear();
  EXPECT_EQ(pool.used(), 0u);
}

}  // namespace
}  // namespace lazyfs::data
