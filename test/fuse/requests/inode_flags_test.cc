#include "fuse/requests/inode_flags.h"

#include <gtest/gtest.h>
#include <linux/fs.h>

namespace lazyfs::fuse {
namespace {

TEST(InodeFlags, HaveLinuxNames) {
  EXPECT_EQ(to_linux_flags(fs::kImmutable | fs::kNoDump),
            static_cast<std::uint32_t>(FS_IMMUTABLE_FL | FS_NODUMP_FL));
  EXPECT_EQ(to_xflags(fs::kAppendOnly | fs::kNoAccessTime),
            static_cast<std::uint32_t>(FS_XFLAG_APPEND | FS_XFLAG_NOATIME));
  for (std::uint32_t flags = 0; flags <= fs::kAllFlags; ++flags) {
    EXPECT_EQ(from_linux_flags(to_linux_flags(flags)), flags);
    EXPECT_EQ(from_xflags(to_xflags(flags)), flags);
  }
}

TEST(InodeFlags, OthersAreRefused) {
  EXPECT_EQ(from_linux_flags(FS_IMMUTABLE_FL | FS_COMPR_FL), std::nullopt);
  EXPECT_EQ(from_xflags(FS_XFLAG_SYNC), std::nullopt);
}

}  // namespace
}  // namespace lazyfs::fuse
