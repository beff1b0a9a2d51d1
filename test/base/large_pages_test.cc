#include "base/large_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "test/support/mapping.h"

namespace lazyfs {
namespace {

TEST(LargePagesTest, AreAlignedAndZeroed) {
  LargePages pages(3 * kLargePageBytes);
  EXPECT_EQ(pages.size(), 3 * kLargePageBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages.data()) % kLargePageBytes, 0u);
  EXPECT_TRUE(std::ranges::all_of(pages.span(), [](std::byte b) { return b == std::byte{0}; }));
  std::memset(pages.data(), 1, pages.size());
}

TEST(LargePagesTest, AreAsFewAsHoldTheBytes) {
  EXPECT_EQ(LargePages::holding(1).size(), kLargePageBytes);
  EXPECT_EQ(LargePages::holding(kLargePageBytes).size(), kLargePageBytes);
  EXPECT_EQ(LargePages::holding(kLargePageBytes + 1).size(), 2 * kLargePageBytes);
}

TEST(LargePagesTest, BelongToOneOwner) {
  LargePages first(kLargePageBytes);
  std::byte* const at = first.data();
  LargePages second = std::move(first);
  EXPECT_EQ(second.data(), at);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): it is empty
  EXPECT_EQ(first.size(), 0u);
  second = LargePages();
  EXPECT_FALSE(second);
  EXPECT_EQ(mapping_at(at).large_bytes, 0u);
}

// Some, because the kernel may lack large pages for all of it.
TEST(LargePagesTest, AreLargeWhereTheKernelHasLargePages) {
  if (!kernel_has_large_pages()) GTEST_SKIP() << "the kernel has no large pages";
  LargePages pages(16 * kLargePageBytes);
  EXPECT_TRUE(mapping_at(pages.data()).is_for_large_pages);
  pages.populate();
  EXPECT_GT(mapping_at(pages.data()).large_bytes, 0u);
}

TEST(LargePagesDeathTest, DieOfASizeThatIsNoMultiple) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(LargePages(0), "invariant violated");
  EXPECT_DEATH(LargePages(kLargePageBytes / 2), "invariant violated");
}

}  // namespace
}  // namespace lazyfs
