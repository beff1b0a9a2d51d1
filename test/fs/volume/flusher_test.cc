#include "fs/volume/flusher.h"

#include <string>

#include "test/fs/volume_fixture.h"
#include "test/support/stats.h"

namespace lazyfs::fs {
namespace {

class FlusherTest : public VolumeTest {
 protected:
  void SetUp() override {
    options_.commit_interval = std::chrono::hours(1);  // nothing is old
    VolumeTest::SetUp();
  }
  // Makes files and reads them, so that each has a new access time.
  void make_dirty(int files) {
    std::byte byte{};
    for (int i = 0; i < files; ++i) {
      const InodeNo file = create("file" + std::to_string(i));
      ASSERT_EQ(volume_->read(file, 0, std::span(&byte, 1), true), 0u);
    }
  }
  std::uint64_t dirty() { return stat_of(*volume_, "data", "dirty_inodes"); }
};

TEST_F(FlusherTest, WritesYoungInodesBackWhenThereAreMany) {
  make_dirty(17'000);
  ASSERT_EQ(dirty(), 17'000u);
  volume_->tick();
  EXPECT_EQ(dirty(), 0u);
}

TEST_F(FlusherTest, LeavesAFewYoungInodesAlone) {
  make_dirty(100);
  volume_->tick();
  EXPECT_EQ(dirty(), 100u);
}

}  // namespace
}  // namespace lazyfs::fs
