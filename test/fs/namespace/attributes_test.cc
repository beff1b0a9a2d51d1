// Setting attributes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <string>
#include <vector>

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

// The kernel sends data late: a crash must not leave a file with zeros in place of data.
TEST_F(VolumeTest, NoChangeOfAnInodeMakesItsNewSizeDurableBeforeTheData) {
  const std::vector<std::function<bool(InodeNo)>> changes{
      [&](InodeNo file) { return volume_->link(file, kRootInode, "b").has_value(); },
      [&](InodeNo) { return volume_->unlink(kRootInode, "second").has_value(); },
      [&](InodeNo) { return volume_->rename(kRootInode, "a", kRootInode, "b", {}).has_value(); },
      [&](InodeNo) {
        return volume_->rename(kRootInode, "other", kRootInode, "second", {}).has_value();
      },
      [&](InodeNo) {
        return volume_->rename(kRootInode, "a", kRootInode, "other", {.exchange = true})
            .has_value();
      },
      [&](InodeNo) {
        return volume_->rename(kRootInode, "other", kRootInode, "a", {.exchange = true})
            .has_value();
      },
      [&](InodeNo file) {
        return volume_->set_xattr(file, "user.new", "", XattrMode::kAny).has_value();
      },
      [&](InodeNo file) { return volume_->remove_xattr(file, "user.old").has_value(); },
      [&](InodeNo file) { return volume_->set_attributes(file, {.mode = 0600}).has_value(); }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const InodeNo file = create("a");
    create("other");
    ASSERT_TRUE(volume_->link(file, kRootInode, "second"));
    ASSERT_TRUE(volume_->set_xattr(file, "user.old", "", XattrMode::kAny));
    write(file, 0, std::string(50'000, 'x'));
    EXPECT_TRUE(changes[i](file)) << i;
    ASSERT_TRUE(volume_->fsync_directory(kRootInode));  // commits, and writes no data back
    lose_power();
    EXPECT_EQ(volume_->lookup_inode(file)->size, 0u) << i;
    volume_->forget(file, 1);
    for (const char* const name : {"a", "b", "other", "second"}) {
      ignore_error(volume_->unlink(kRootInode, name), "some changes leave none of that name");
    }
  }
}

}  // namespace
}  // namespace lazyfs::fs
