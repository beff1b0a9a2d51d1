#include "base/size.h"

#include <gtest/gtest.h>

namespace lazyfs {
namespace {

TEST(SizeTest, ReadsPowersOf1024) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("4096"), 4096u);
  EXPECT_EQ(parse_size("4K"), 4096u);
  EXPECT_EQ(parse_size("3m"), 3u << 20);
  EXPECT_EQ(parse_size("2G"), 2ull << 30);
  EXPECT_EQ(parse_size("64KiB"), 64u << 10);
  EXPECT_EQ(parse_size("2GiB"), 2ull << 30);
  EXPECT_EQ(parse_size("1T"), 1ull << 40);
  EXPECT_EQ(parse_size("16777215T"), 16777215ull << 40);
}

TEST(SizeTest, RefusesTextThatIsNotASizeOrIsTooLarge) {
  for (const char* text : {"", "K", "-1", "+1", " 1", "1 ", "1KB", "iB", "KiB", "10iB", "1Ki",
                           "0x10", "1.5G", "16777216T",
                           "18446744073709551616"}) {
    EXPECT_EQ(parse_size(text).error(), Errc::kInvalid) << text;
  }
}

TEST(SizeTest, ReadsRanges) {
  EXPECT_EQ(*parse_range("3"), std::pair(3u, 3u));
  EXPECT_EQ(*parse_range("3-7"), std::pair(3u, 7u));
  for (const char* text : {"", "-", "3-", "-3", "7-3", "3-4-5", "1-4294967296"}) {
    EXPECT_EQ(parse_range(text).error(), Errc::kInvalid) << text;
  }
}

TEST(SizeTest, WritesSizesForPeople) {
  EXPECT_EQ(size_text(0), "0");
  EXPECT_EQ(size_text(4096), "4 KiB");
  EXPECT_EQ(size_text(256ull << 20), "256 MiB");
  EXPECT_EQ(size_text(3ull << 29), "1.5 GiB");
}

}  // namespace
}  // namespace lazyfs
