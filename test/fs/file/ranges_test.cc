// Ranges of files, and files without names (fs/file/file_ranges.h).
#include <sys/stat.h>

#include "test/fs/volume_fixture.h"
#include "test/support/units.h"

namespace lazyfs::fs {
namespace {

class RangesTest : public VolumeTest {
 protected:
  std::uint64_t blocks_of(InodeNo inode) {
    EXPECT_TRUE(volume_->sync());
    return volume_->get_attributes(inode)->blocks_512 / 8;
  }
  // A file of `blocks` blocks, in the bands.
  InodeNo file_of(std::uint64_t blocks) {
    const InodeNo file = create("f");
    write(file, 0, std::string(blocks * kB, 'x'));
    EXPECT_TRUE(volume_->sync());
    return file;
  }
};

TEST_F(RangesTest, PunchedBlocksAreFreeAndTheirNeighboursKept) {
  const InodeNo file = file_of(10);
  ASSERT_TRUE(volume_->punch(file, 2 * kB + 100, 3 * kB, {}));
  std::string expected(10 * kB, 'x');
  expected.replace(2 * kB + 100, 3 * kB, std::string(3 * kB, '\0'));
  EXPECT_EQ(read(file), expected);
  EXPECT_EQ(blocks_of(file), 8u);
  remount();
  EXPECT_EQ(read(lookup("f")), expected);
}

TEST_F(RangesTest, PunchingDirtyBlocksDropsThem) {
  const InodeNo file = create("f");
  write(file, 0, std::string(8 * kB, 'x'));
  ASSERT_TRUE(volume_->punch(file, 0, 8 * kB, {}));
  EXPECT_EQ(blocks_of(file), 0u);
  remount();
  EXPECT_EQ(read(lookup("f")), std::string(8 * kB, '\0'));
}

TEST_F(RangesTest, PunchingToTheEndFreesThePartialLastBlock) {
  const InodeNo file = create("f");
  write(file, 0, std::string(2 * kB + 5, 'x'));
  ASSERT_TRUE(volume_->sync());
  ASSERT_TRUE(volume_->punch(file, 2 * kB, 5, {}));
  EXPECT_EQ(blocks_of(file), 2u);
  EXPECT_EQ(read(file), std::string(2 * kB, 'x') + std::string(5, '\0'));
}

TEST_F(RangesTest, PunchingManyScatteredExtentsTakesThemAll) {
  const InodeNo file = create("f");
  for (std::uint64_t i = 0; i < 400; ++i) write(file, 2 * i * kB, "x");
  EXPECT_EQ(blocks_of(file), 400u);
  ASSERT_TRUE(volume_->punch(file, 3 * kB, 700 * kB, {}));
  EXPECT_EQ(blocks_of(file), 2u + (400 - 352));
}

TEST_F(RangesTest, InlineContentsArePunched) {
  const InodeNo file = create("f");
  write(file, 0, "0123456789");
  ASSERT_TRUE(volume_->sync());
  ASSERT_TRUE(volume_->punch(file, 2, 3, {}));
  EXPECT_EQ(read(file), std::string("01\0\0\0"
                                    "56789",
                                    10));
  ASSERT_TRUE(volume_->sync());
  remount();
  ASSERT_TRUE(volume_->punch(lookup("f"), 0, kB, {}));
  EXPECT_EQ(read(lookup("f")), std::string(10, '\0'));
  remount();
  EXPECT_EQ(read(lookup("f")), std::string(10, '\0'));
}

TEST_F(RangesTest, ZeroingGrowsTheFileUnlessItShallKeepItsSize) {
  const InodeNo file = file_of(1);
  ASSERT_TRUE(volume_->zero(file, 100, 2 * kB, {.keep_size = true}));
  EXPECT_EQ(read(file), std::string(100, 'x') + std::string(kB - 100, '\0'));
  ASSERT_TRUE(volume_->zero(file, 50, 2 * kB, {}));
  EXPECT_EQ(read(file), std::string(50, 'x') + std::string(2 * kB, '\0'));
}

TEST_F(RangesTest, RangesPastTheLargestFileSizeAreRefused) {
  const InodeNo file = file_of(1);
  EXPECT_EQ(volume_->punch(file, 0, 0, {}).error(), Errc::kInvalid);
  EXPECT_EQ(volume_->zero(file, kMaxFileBytes, 1, {}).error(), Errc::kFileTooBig);
  EXPECT_EQ(volume_->punch(kRootInode, 0, 1, {}).error(), Errc::kInvalid);
}

TEST_F(RangesTest, ChangingARangeDropsSetIdBitsWhenAsked) {
  const InodeNo file = file_of(1);
  ASSERT_TRUE(volume_->set_attributes(file, {.mode = 06755}));
  ASSERT_TRUE(volume_->punch(file, 0, 1, {}));
  EXPECT_EQ(volume_->get_attributes(file)->mode & 07777, 06755u);
  ASSERT_TRUE(volume_->punch(file, 0, 1, {.clear_set_id = true}));
  EXPECT_EQ(volume_->get_attributes(file)->mode & 07777, 0755u);
}

TEST_F(RangesTest, DataAndHolesAreFoundInMemoryAndInBands) {
  const InodeNo file = create("f");
  write(file, 3 * kB, std::string(2 * kB, 'a'));
  ASSERT_TRUE(volume_->sync());
  write(file, 5 * kB, std::string(kB, 'b'));
  write(file, 200 * kB + 7, "c");
  EXPECT_EQ(volume_->find_data(file, 0), 3 * kB);
  EXPECT_EQ(volume_->find_data(file, 4 * kB + 1), 4 * kB + 1);
  EXPECT_EQ(volume_->find_hole(file, 0), 0u);
  EXPECT_EQ(volume_->find_hole(file, 3 * kB), 6 * kB);
  EXPECT_EQ(volume_->find_data(file, 6 * kB), 200 * kB);
  EXPECT_EQ(volume_->find_hole(file, 200 * kB), 200 * kB + 8);
  EXPECT_EQ(volume_->find_data(file, 200 * kB + 8).error(), Errc::kNoSuchRange);
  EXPECT_EQ(volume_->find_hole(file, 200 * kB + 8).error(), Errc::kNoSuchRange);
}

TEST_F(RangesTest, NoDataIsFoundInAHoleAtTheEnd) {
  const InodeNo file = create("f");
  ASSERT_TRUE(volume_->set_attributes(file, {.size = 5 * kB}));
  EXPECT_EQ(volume_->find_data(file, 0).error(), Errc::kNoSuchRange);
  EXPECT_EQ(volume_->find_hole(file, 2), 2u);
}

TEST_F(RangesTest, InlineContentsAreData) {
  const InodeNo file = create("f");
  write(file, 0, "small");
  ASSERT_TRUE(volume_->sync());
  remount();
  EXPECT_EQ(volume_->find_data(lookup("f"), 1), 1u);
  EXPECT_EQ(volume_->find_hole(lookup("f"), 1), 5u);
}

class UnnamedTest : public RangesTest {
 protected:
  InodeNo unnamed() {
    const auto made = volume_->create_unnamed(kRootInode, 0640, {.uid = 7, .gid = 8});
    EXPECT_TRUE(made);
    volume_->release(made->file);
    return made->attributes.inode;
  }
};

TEST_F(UnnamedTest, AnUnnamedFileIsInNoDirectoryAndDeletedAfterItsLastUse) {
  const InodeNo file = unnamed();
  write(file, 0, std::string(4 * kB, 'x'));
  EXPECT_EQ(read(file), std::string(4 * kB, 'x'));
  EXPECT_EQ(volume_->get_attributes(file)->links, 0u);
  EXPECT_TRUE(volume_->read_directory(kRootInode, 0, 10)->empty());
  ASSERT_TRUE(volume_->sync());
  volume_->forget(file, 1);
  volume_->tick();
  EXPECT_EQ(volume_->get_attributes(file).error(), Errc::kStale);
}

TEST_F(UnnamedTest, ANameMakesItAnOrdinaryFile) {
  const InodeNo file = unnamed();
  write(file, 0, "contents");
  ASSERT_TRUE(volume_->link(file, kRootInode, "name"));
  EXPECT_EQ(volume_->get_attributes(file)->links, 1u);
  ASSERT_TRUE(volume_->sync());
  lose_power();
  EXPECT_EQ(read(lookup("name")), "contents");
  EXPECT_EQ(volume_->get_attributes(lookup("name"))->owner, (Owner{7, 8}));
}

TEST_F(UnnamedTest, ACrashLeavesNothingOfIt) {
  const InodeNo file = unnamed();
  write(file, 0, std::string(4 * kB, 'x'));
  ASSERT_TRUE(volume_->fsync(file, nullptr, false));
  lose_power();
  volume_->tick();
  EXPECT_EQ(volume_->get_attributes(file).error(), Errc::kStale);
}

TEST_F(UnnamedTest, AnInodeWithoutANameIsNotFoundByItsNumber) {
  const InodeNo file = unnamed();
  EXPECT_EQ(volume_->lookup_inode(file).error(), Errc::kStale);
  EXPECT_TRUE(volume_->get_attributes(file));
}

}  // namespace
}  // namespace lazyfs::fs
