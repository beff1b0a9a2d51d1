#include "fuse/requests/convert.h"

#include <gtest/gtest.h>

#include "fuse/requests/cookie.h"
#include "fuse/requests/operation_counts.h"
#include "fuse/requests/stats_texts.h"

namespace lazyfs::fuse {
namespace {

TEST(Cookies, GoToOffsetsAndBack) {
  for (const std::uint64_t cookie : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 62}) {
    EXPECT_EQ(cookie_of_offset(offset_of_cookie(cookie)), cookie);
    EXPECT_GE(offset_of_cookie(cookie), kAfterDotDot);
  }
}

TEST(Convert, AttributesKeepEveryField) {
  const fs::Attributes attributes{.inode = InodeNo{7},
                                  .mode = S_IFREG | 0640,
                                  .links = 3,
                                  .owner = {1000, 1001},
                                  .rdev = 0x801,
                                  .size = 5'000'000'000,
                                  .blocks_512 = 9'765'632,
                                  .access = {-1, 999'999'999},
                                  .modification = {2'000'000'000'000, 5},
                                  .change = {3, 4}};
  const struct stat st = to_stat(attributes);
  EXPECT_EQ(st.st_ino, 7u);
  EXPECT_EQ(st.st_mode, static_cast<mode_t>(S_IFREG | 0640));
  EXPECT_EQ(st.st_nlink, 3u);
  EXPECT_EQ(st.st_uid, 1000u);
  EXPECT_EQ(st.st_gid, 1001u);
  EXPECT_EQ(st.st_rdev, 0x801u);
  EXPECT_EQ(st.st_size, 5'000'000'000);
  EXPECT_EQ(st.st_blocks, 9'765'632);
  EXPECT_EQ(st.st_atim.tv_sec, -1);
  EXPECT_EQ(st.st_atim.tv_nsec, 999'999'999);
  EXPECT_EQ(st.st_mtim.tv_sec, 2'000'000'000'000);
  EXPECT_EQ(st.st_ctim.tv_nsec, 4);
}

TEST(Convert, OnlyWhatIsAskedForChanges) {
  struct stat values {};
  values.st_mode = S_IFREG | 04755;
  values.st_uid = 5;
  values.st_size = 10;
  const auto nothing = to_change(values, 0, false);
  EXPECT_FALSE(nothing.mode || nothing.uid || nothing.gid || nothing.size || nothing.access ||
               nothing.modification || nothing.change || nothing.access_now ||
               nothing.modification_now || nothing.clear_set_id);
  const auto some = to_change(values, FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_SIZE, true);
  EXPECT_EQ(some.mode, 04755u);
  EXPECT_EQ(some.size, 10u);
  EXPECT_FALSE(some.uid.has_value());
  EXPECT_TRUE(some.clear_set_id);
  const auto now = to_change(values, FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME, false);
  EXPECT_TRUE(now.access_now);
  EXPECT_FALSE(now.access.has_value());
  EXPECT_TRUE(now.modification.has_value());
}

TEST(StatsTexts, AreReadPieceByPieceUntilEightNewerOnesCame) {
  StatsTexts texts;
  const std::uint64_t first = texts.put("0123456789");
  EXPECT_EQ(texts.get(first, 0, 4)->text, "0123");
  EXPECT_EQ(texts.get(first, 8, 4)->text, "89");
  EXPECT_EQ(texts.get(first, 10, 4)->text, "");
  EXPECT_EQ(texts.get(first, 0, 4)->total_bytes, 10u);
  EXPECT_FALSE(texts.get(first, 11, 1).has_value());
  EXPECT_FALSE(texts.get(0, 0, 1).has_value());
  EXPECT_FALSE(texts.get(first + 1, 0, 1).has_value());
  for (int i = 0; i < 7; ++i) texts.put("newer");
  EXPECT_TRUE(texts.get(first, 0, 1).has_value());
  texts.put("newest");
  EXPECT_FALSE(texts.get(first, 0, 1).has_value());
}

}  // namespace
}  // namespace lazyfs::fuse
