#include "fuse/requests/late_errors.h"

#include <gtest/gtest.h>

namespace lazyfs::fuse {
namespace {

TEST(LateErrorsTest, AnErrorIsTakenOnce) {
  LateErrors errors;
  EXPECT_EQ(errors.take(InodeNo{2}), std::nullopt);
  errors.note(InodeNo{2}, Errc::kNoSpace);
  errors.note(InodeNo{3}, Errc::kNoSpace);
  errors.note(InodeNo{2}, Errc::kLogFull);
  EXPECT_EQ(errors.take(InodeNo{4}), std::nullopt);
  EXPECT_EQ(errors.take(InodeNo{2}), Errc::kLogFull);
  EXPECT_EQ(errors.take(InodeNo{2}), std::nullopt);
  EXPECT_EQ(errors.take(InodeNo{3}), Errc::kNoSpace);
}

TEST(LateErrorsTest, ADroppedErrorIsNotTaken) {
  LateErrors errors;
  errors.drop(InodeNo{2});
  errors.note(InodeNo{2}, Errc::kNoSpace);
  errors.note(InodeNo{3}, Errc::kNoSpace);
  errors.drop(InodeNo{2});
  EXPECT_EQ(errors.take(InodeNo{2}), std::nullopt);
  EXPECT_EQ(errors.take(InodeNo{3}), Errc::kNoSpace);
}

TEST(LateErrorsTest, ThereIsABound) {
  LateErrors errors;
  for (std::uint64_t i = 0; i <= LateErrors::kFilesMax; ++i) {
    errors.note(InodeNo{i + 1}, Errc::kNoSpace);
  }
  EXPECT_EQ(errors.take(InodeNo{LateErrors::kFilesMax + 1}), std::nullopt);
  EXPECT_EQ(errors.take(InodeNo{LateErrors::kFilesMax}), Errc::kNoSpace);
}

}  // namespace
}  // namespace lazyfs::fuse
