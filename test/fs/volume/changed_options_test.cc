// What options do that are changed while the volume is mounted.
#include <chrono>
#include <string>

#include "data/placement.h"
#include "test/fs/volume_fixture.h"
#include "test/support/stats.h"

namespace lazyfs::fs {
namespace {

class ChangedOptionsTest : public VolumeTest {
 protected:
  void use_changed_options() { ASSERT_TRUE(volume_->change_options(options_)); }
  std::uint64_t dirty_blocks() {
    return stat_of(*volume_, "data", "dirty_bytes") / kBlockBytes;
  }
  std::uint64_t nodes_cached() { return stat_of(*volume_, "metadata", "nodes_cached"); }
};

TEST_F(ChangedOptionsTest, Placement) {
  options_.placement = data::Placement::kAgeFit;
  use_changed_options();
  EXPECT_EQ(stats_of(*volume_)["data"]["placement"].text(),
            data::name_of(data::Placement::kAgeFit));
}

TEST_F(ChangedOptionsTest, LimitOfDirtyData) {
  const InodeNo file = create("file");
  const std::string block(kBlockBytes, 'x');
  for (std::uint64_t i = 0; i < 64; ++i) write(file, i * kBlockBytes, block);
  EXPECT_EQ(dirty_blocks(), 64u);
  options_.dirty_bytes = 16 * std::size_t{kBlockBytes};
  use_changed_options();
  write(file, 0, block);
  EXPECT_EQ(dirty_blocks(), 1u);
}

TEST_F(ChangedOptionsTest, CommitInterval) {
  write(create("file"), 0, std::string(kBlockBytes, 'x'));
  volume_->tick();
  EXPECT_EQ(dirty_blocks(), 1u);
  options_.commit_interval = {};
  use_changed_options();
  volume_->tick();
  EXPECT_EQ(dirty_blocks(), 0u);
}

TEST_F(ChangedOptionsTest, LimitOfCachedNodes) {
  for (int i = 0; i < 6000; ++i) create(std::to_string(i));
  ASSERT_TRUE(volume_->sync());
  const std::uint64_t limit = 300;
  ASSERT_GT(nodes_cached(), limit + 100);
  options_.cache_bytes = limit * kBlockBytes;
  use_changed_options();
  for (int i = 0; i < 10; ++i) {  // each commit evicts some
    write(lookup("0"), 0, std::to_string(i));
    ASSERT_TRUE(volume_->sync());
  }
  EXPECT_LE(nodes_cached(), limit);
}

}  // namespace
}  // namespace lazyfs::fs
