// Setting attributes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "test/fs/volume_fixture.h"

namespace lazyfs::fs {
namespace {

TEST_F(VolumeTest, ChangeOfTheOwnerClearsSetIdBitsOfAllButDirectories) {
  for (const std::uint32_t type : {S_IFREG, S_IFIFO, S_IFSOCK, S_IFCHR}) {
    const auto made = volume_->make_node(kRootInode, "node", type | 06755, 0, {});
    ASSERT_TRUE(made);
    const auto changed =
        volume_->set_attributes(made->inode, {.uid = 1000, .clear_set_id = true});
    ASSERT_TRUE(changed);
    EXPECT_EQ(changed->mode, type | 0755);
    ASSERT_TRUE(volume_->unlink(kRootInode, "node"));
  }
  const auto made = volume_->make_directory(kRootInode, "directory", 06755, {});
  ASSERT_TRUE(made);
  EXPECT_EQ(volume_->set_attributes(made->inode, {.uid = 1000, .clear_set_id = true})->mode,
            S_IFDIR | 06755u);
}

}  // namespace
}  // namespace lazyfs::fs
