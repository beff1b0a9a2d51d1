// Cleaning in small pieces: after each of many operations, cleaning among them, fsck proves that
// the append and delete logs agree with the extents; and no write waits for a whole band.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "device/memory.h"
#include "fsck/check.h"
#include "mkfs/mkfs.h"
#include "fs/volume/mounted_volume.h"
#include "test/support/result_printer.h"
#include "test/support/rounds.h"
#include "test/support/seed.h"
#include "test/support/stats.h"
#include "test/support/test_device.h"

namespace lazyfs::fs {
namespace {

// A volume without threads, whose store can be checked between two operations.
class CleaningTest : public testing::Test {
 protected:
  void mount(std::uint32_t bands, std::uint32_t band_blocks, MountOptions options) {
    options.background = false;
    device_ = test_device(bands, band_blocks);
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {}));
    device_->forget_write_pointers();
    auto store = meta::Store::open(*device_, {.background = false});
    ASSERT_TRUE(store) << describe(store.error());
    store_ = store->get();
    options_ = options;
    auto disk = std::make_unique<device::DiscardingDevice>(*device_, true, [](Errc) {});
    volume_ = std::make_unique<MountedVolume>(std::move(disk), options_, system_clock(),
                                              std::move(*store));
    ASSERT_TRUE(volume_->start({}));
  }
  void TearDown() override {
    if (volume_) {
      EXPECT_TRUE(volume_->unmount());
    }
  }
  InodeNo create(const std::string& name) {
    const auto made = volume_->create(kRootInode, name, 0644, {});
    EXPECT_TRUE(made) << describe(made.error());
    volume_->release(made->file);
    return made->attributes.inode;
  }
  Result<> write(InodeNo file, std::uint64_t block, std::uint64_t blocks) {
    const std::vector<std::byte> bytes(blocks * kBlockBytes, static_cast<std::byte>(++version_));
    return volume_->write(file, block * kBlockBytes, bytes, {});
  }
  std::uint64_t data_stat(const char* name) {
    return stat_of(*volume_, "data", name);
  }
  std::uint64_t space_stat(const char* name) {
    return stat_of(*volume_, "space", name);
  }
  void overwrite_sparsely(std::uint32_t bands, std::uint32_t each);
  std::uint64_t moved_blocks() { return data_stat("collector_blocks_written"); }
  // fsck's checks of the store's present state, durable or not.
  void expect_agreement() {
    const auto print = [](const std::string& problem) { ADD_FAILURE() << problem; };
    const auto report = fsck::check(*store_, *device_, {.data = true}, print);
    ASSERT_TRUE(report) << describe(report.error());
    EXPECT_TRUE(report->complete);
  }

  std::unique_ptr<device::MemoryDevice> device_;
  MountOptions options_;
  std::unique_ptr<MountedVolume> volume_;
  meta::Store* store_ = nullptr;
  std::uint64_t version_ = 0;
};

class AgreementTest : public CleaningTest, public testing::WithParamInterface<CleanChoice> {};

TEST_P(AgreementTest, LogsAndExtentsAgreeAfterEveryOperation) {
  SCOPED_TRACE(seed_trace());
  std::mt19937_64 random(test_seed());
  const auto below = [&](std::uint64_t end) { return random() % end; };
  mount(48, 16, {.dirty_bytes = 8 * kBlockBytes, .clean = GetParam()});
  std::map<std::string, InodeNo> files;
  for (int step = 0; step < 1000 && !HasFailure(); ++step) {
    const std::string name = std::to_string(below(12));
    const auto at = files.find(name);
    SCOPED_TRACE("step " + std::to_string(step));
    const std::uint64_t what = below(20);
    if (at == files.end()) {
      files[name] = create(name);
    } else if (what < 12) {
      // The volume may be full: only agreement is checked.
      ignore_error(write(at->second, below(40), 1 + below(12)), "may be full");
    } else if (what < 14) {
      AttributeChange change;
      change.size = below(40 * kBlockBytes);
      ASSERT_TRUE(volume_->set_attributes(at->second, change));
    } else if (what < 16) {
      ASSERT_TRUE(volume_->unlink(kRootInode, name));
      volume_->forget(at->second, 1);
      files.erase(at);
    } else if (what < 18) {
      ASSERT_TRUE(volume_->collect_garbage());
    } else {
      ASSERT_TRUE(volume_->sync());
    }
    volume_->tick();
    expect_agreement();
  }
  EXPECT_GT(moved_blocks(), 0u);
}

INSTANTIATE_TEST_SUITE_P(, AgreementTest,
                         testing::Values(CleanChoice::kWhole, CleanChoice::kTail,
                                         CleanChoice::kAuto));

// Writers do the cleaning here: there are no threads, and nothing ticks.
TEST_F(CleaningTest, NoWriteWaitsForAWholeBand) {
  SCOPED_TRACE(seed_trace());
  std::mt19937_64 random(test_seed());
  constexpr std::uint32_t kBandBlocks = 512, kDirtyBlocks = 16;
  mount(64, kBandBlocks, {.dirty_bytes = kDirtyBlocks * kBlockBytes});
  const auto space = volume_->space();
  ASSERT_TRUE(space);
  const std::uint64_t blocks = space->available_blocks * 85 / 100;
  const InodeNo file = create("file");
  for (std::uint64_t i = 0; i < blocks; i += 8) ASSERT_TRUE(write(file, i, 8));
  std::uint64_t moved_before = moved_blocks(), longest = 0;
  for (std::uint64_t i = 0; i < rounds_of_build(blocks, blocks / 2); ++i) {
    ASSERT_TRUE(write(file, random() % blocks, 1));
    const std::uint64_t moved = moved_blocks();
    longest = std::max(longest, moved - moved_before);
    moved_before = moved;
  }
  EXPECT_GT(moved_before, blocks / 8);  // it was cleaned indeed
  EXPECT_LT(longest, kBandBlocks / 2);
  EXPECT_EQ(data_stat("bands_waited_for"), 0u);
}

// Overwrites one block of `each` in a file of `bands` bands.
void CleaningTest::overwrite_sparsely(std::uint32_t bands, std::uint32_t each) {
  const std::uint64_t blocks = std::uint64_t{bands} * device_->geometry().band_blocks[0];
  const InodeNo file = create("sparse");
  for (std::uint64_t i = 0; i < blocks; i += 8) ASSERT_TRUE(write(file, i, 8));
  ASSERT_TRUE(volume_->sync());
  for (std::uint64_t i = 0; i < blocks; i += each) ASSERT_TRUE(write(file, i, 1));
  ASSERT_TRUE(volume_->sync());
}

TEST_F(CleaningTest, GarbageCollectionLeavesBandsThatAreNearlyLive) {
  mount(48, 64, {.dirty_bytes = 64 * kBlockBytes});
  overwrite_sparsely(8, 16);  // 6 % are dead
  ASSERT_TRUE(volume_->collect_garbage());
  EXPECT_EQ(moved_blocks(), 0u);
  expect_agreement();
}

TEST_F(CleaningTest, GarbageCollectionCleansBandsThatAreDeadInPart) {
  mount(48, 64, {.dirty_bytes = 64 * kBlockBytes});
  overwrite_sparsely(8, 4);
  const std::uint64_t dead = space_stat("dead_blocks");
  ASSERT_TRUE(volume_->collect_garbage());
  EXPECT_GE(moved_blocks(), 8u * 48 - 48);
  EXPECT_LT(space_stat("dead_blocks"), dead / 4);
  expect_agreement();
  const std::uint64_t moved = moved_blocks();
  ASSERT_TRUE(volume_->collect_garbage());
  EXPECT_EQ(moved_blocks(), moved);  // there is nothing more to gain
}

}  // namespace
}  // namespace lazyfs::fs
