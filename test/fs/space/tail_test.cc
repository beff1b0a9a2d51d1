// Cleaning the ends of bands: the write pointer goes back, live blocks stay, and a power cut at any
// moment leaves a consistent volume.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "device/faulty.h"
#include "device/memory.h"
#include "mkfs/mkfs.h"
#include "fs/volume/volume.h"
#include "test/fsck/expect_clean.h"
#include "test/support/seed.h"
#include "test/support/stats.h"

namespace lazyfs::fs {
namespace {

// Files of whole blocks on a small disk; each block is filled with one letter.
class TailTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {}));
    mount();
  }
  void TearDown() override {
    if (!volume_) return;
    ASSERT_TRUE(volume_->unmount());
    volume_.reset();
    fsck::expect_clean(*device_);
  }
  void mount() {
    faulty_ = std::make_unique<device::FaultyDevice>(*device_);
    auto volume = Volume::mount(*faulty_, options_);
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  void lose_power() {
    volume_->shut_down();
    volume_.reset();
    fsck::expect_clean(*device_);
    mount();
  }
  InodeNo create(const std::string& name, std::uint64_t blocks, char letter) {
    auto made = volume_->create(kRootInode, name, 0644, {});
    EXPECT_TRUE(made) << describe(made.error());
    volume_->release(made->file);
    write(made->attributes.inode, 0, blocks, letter);
    return made->attributes.inode;
  }
  void write(InodeNo file, std::uint64_t block, std::uint64_t blocks, char letter) {
    const std::vector<std::byte> bytes(blocks * kBlockBytes, static_cast<std::byte>(letter));
    const auto written = volume_->write(file, block * kBlockBytes, bytes);
    ASSERT_TRUE(written) << describe(written.error());
    ASSERT_TRUE(volume_->sync());
  }
  void remove(const std::string& name, InodeNo file) {
    ASSERT_TRUE(volume_->unlink(kRootInode, name));
    volume_->forget(file, 1);
  }
  std::string letters(InodeNo file) {
    std::string found;
    std::vector<std::byte> block(kBlockBytes);
    while (volume_->read(file, found.size() * kBlockBytes, block).value_or(0) == kBlockBytes) {
      const char letter = static_cast<char>(block[0]);
      const bool is_whole = std::ranges::all_of(block, [&](auto b) { return b == block[0]; });
      found += is_whole ? letter : '?';
    }
    return found;
  }
  // 10 blocks stay, 20 die, and 5 past them are moved.
  void clean_a_hole_before_live_blocks() {
    create("a", 10, 'a');
    const InodeNo goes = create("b", 20, 'b');
    create("c", 5, 'c');
    remove("b", goes);
    ASSERT_TRUE(volume_->collect_garbage());
  }
  InodeNo lookup(const std::string& name) { return volume_->lookup(kRootInode, name)->inode; }
  std::uint64_t stat(const char* group, const char* key) {
    return stat_of(*volume_, group, key);
  }
  std::uint64_t cuts() { return stat("data", "tails_cleaned"); }

  std::unique_ptr<device::MemoryDevice> device_ = device::MemoryDevice::uniform(64, 64);
  std::unique_ptr<device::FaultyDevice> faulty_;  // a new one for each mount
  MountOptions options_{.clean = CleanChoice::kTail, .background = false};
  std::unique_ptr<Volume> volume_;
};

TEST_F(TailTest, HoleAtTheEndIsCutOffWithoutMovingAnything) {
  const InodeNo stays = create("a", 10, 'a'), goes = create("b", 20, 'b');
  remove("b", goes);
  const auto unwritten = stat("space", "unwritten_blocks");
  ASSERT_TRUE(volume_->collect_garbage());
  EXPECT_EQ(cuts(), 1u);
  EXPECT_EQ(stat("space", "unwritten_blocks"), unwritten + 20);
  EXPECT_EQ(stat("space", "dead_blocks"), 0u);
  EXPECT_EQ(stat("data", "collector_blocks_written"), 0u);
  create("c", 20, 'c');
  lose_power();
  EXPECT_EQ(letters(lookup("a")), std::string(10, 'a'));
  EXPECT_EQ(letters(lookup("c")), std::string(20, 'c'));
  static_cast<void>(stays);
}

TEST_F(TailTest, LiveBlocksPastTheHoleAreMoved) {
  clean_a_hole_before_live_blocks();
  EXPECT_EQ(cuts(), 1u);
  EXPECT_EQ(stat("data", "collector_blocks_written"), 5u);
  EXPECT_EQ(stat("space", "dead_blocks"), 0u);
  lose_power();
  EXPECT_EQ(letters(lookup("a")), std::string(10, 'a'));
  EXPECT_EQ(letters(lookup("c")), std::string(5, 'c'));
}

TEST_F(TailTest, WhatTheCollectorWritesCountsAsWriteAmplification) {
  clean_a_hole_before_live_blocks();
  const auto amplification = [&] {
    return stats_of(*volume_)["data"]["write_amplification"].real();
  };
  EXPECT_DOUBLE_EQ(amplification(), 40.0 / 35);
  ASSERT_TRUE(volume_->unmount());
  mount();
  EXPECT_DOUBLE_EQ(amplification(), 1.0);  // of this mount
  EXPECT_EQ(stat("data", "user_blocks_since_mkfs"), 35u);
  EXPECT_EQ(stat("data", "collector_blocks_since_mkfs"), 5u);
}

TEST_F(TailTest, DeviceThatCannotSetAWritePointerIsCleanedBandByBand) {
  ASSERT_TRUE(volume_->unmount());
  volume_.reset();
  device_ = std::make_unique<device::MemoryDevice>(device_->geometry(), device::Capabilities{});
  ASSERT_TRUE(mkfs::make_filesystem(*device_, {}));
  auto volume = Volume::mount(*device_, options_);
  ASSERT_TRUE(volume);
  volume_ = std::move(*volume);
  create("a", 10, 'a');
  remove("b", create("b", 20, 'b'));
  ASSERT_TRUE(volume_->collect_garbage());
  EXPECT_EQ(cuts(), 0u);
  EXPECT_EQ(stat("data", "collector_blocks_written"), 10u);
  EXPECT_EQ(stat("space", "dead_blocks"), 0u);
}

TEST_F(TailTest, BandWhoseCutFailsIsSetAsideAndStaysReadable) {
  create("a", 10, 'a');
  remove("b", create("b", 20, 'b'));
  faulty_->fail_when([](const device::CallInfo& call) -> std::optional<device::Fault> {
    if (call.call != device::Call::kSetWritePointer) return std::nullopt;
    return device::Fault{.error = Errc::kDeviceWrite};
  });
  EXPECT_TRUE(volume_->collect_garbage());
  EXPECT_EQ(stat("data", "bad_bands"), 1u);
  faulty_->mend();
  EXPECT_EQ(letters(lookup("a")), std::string(10, 'a'));
  create("c", 5, 'c');
  lose_power();
  EXPECT_EQ(letters(lookup("a")), std::string(10, 'a'));
  EXPECT_EQ(letters(lookup("c")), std::string(5, 'c'));
}

// The device fails for a moment only: the band's data is moved, and the band is used again.
TEST_F(TailTest, BandThatCouldNotBeReadOnceIsNotSetAside) {
  const InodeNo first = create("x", 10, 'x');
  create("y", 54, 'y');
  create("a", 10, 'a');
  const InodeNo goes = create("b", 20, 'b');
  create("c", 5, 'c');
  remove("x", first);  // a whole band to be cleaned, besides the other one's tail
  remove("b", goes);
  faulty_->fail_when(
      [times = 2](const device::CallInfo& call) mutable -> std::optional<device::Fault> {
        if (call.call != device::Call::kRead || times == 0) return std::nullopt;
        --times;
        return device::Fault{.error = Errc::kDeviceRead};
      });
  ASSERT_TRUE(volume_->collect_garbage());
  faulty_->mend();
  volume_->tick();
  ASSERT_TRUE(volume_->collect_garbage());
  EXPECT_EQ(stat("space", "dead_blocks"), 0u);
  EXPECT_EQ(stat("data", "bad_bands"), 0u);
  lose_power();
  EXPECT_EQ(letters(lookup("a")), std::string(10, 'a'));
  EXPECT_EQ(letters(lookup("c")), std::string(5, 'c'));
}

// Everything is durable before each cleaning, which an error then ends at any call of the device.
TEST_F(TailTest, CleaningThatEndsAnywhereChangesNoFile) {
  SCOPED_TRACE(seed_trace());
  std::mt19937_64 random(test_seed());
  const auto below = [&](std::uint64_t end) { return random() % end; };
  std::map<std::string, std::string> model;
  std::uint64_t all_cuts = 0;
  for (int step = 0; step < 1500 && !HasFailure(); ++step) {
    const std::string name = "f" + std::to_string(below(24));
    const char letter = static_cast<char>('a' + below(26));
    const auto found = model.find(name);
    if (below(8) == 0) {
      std::uint64_t calls = below(60);
      faulty_->fail_when([calls](const device::CallInfo&) mutable -> std::optional<device::Fault> {
        if (calls-- > 0) return std::nullopt;
        calls = 0;
        return device::Fault{.error = Errc::kDeviceWrite};
      });
      static_cast<void>(volume_->collect_garbage());
      faulty_->mend();
      all_cuts += cuts();
      lose_power();
      for (const auto& [file, expected] : model) {
        const InodeNo inode = lookup(file);
        EXPECT_EQ(letters(inode), expected) << file << " at step " << step;
        volume_->forget(inode, 1);
      }
    } else if (found == model.end()) {
      const std::uint64_t blocks = 1 + below(40);
      volume_->forget(create(name, blocks, letter), 1);
      model[name] = std::string(blocks, letter);
    } else if (below(3) == 0) {
      remove(name, lookup(name));
      ASSERT_TRUE(volume_->sync());
      model.erase(found);
    } else {
      const std::uint64_t at = below(found->second.size());
      const std::uint64_t blocks = 1 + below(found->second.size() - at);
      const InodeNo inode = lookup(name);
      write(inode, at, blocks, letter);
      volume_->forget(inode, 1);
      found->second.replace(at, blocks, blocks, letter);
    }
  }
  EXPECT_GT(all_cuts, 0u);
}

}  // namespace
}  // namespace lazyfs::fs
