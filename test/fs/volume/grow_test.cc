// Growing a volume: files get the new bands at once, and a power cut leaves it grown or not.
#include <gtest/gtest.h>

#include <string>

#include "device/power_cut.h"
#include "device/recording.h"
#include "test/fs/volume_fixture.h"
#include "test/support/result_printer.h"
#include "test/support/rounds.h"

namespace lazyfs::fs {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class GrowTest : public VolumeTest {
 protected:
  void write_pieces(InodeNo file, std::uint64_t pieces) {
    for (std::uint64_t i = 0; i < pieces; ++i) {
      write(file, i * kMiB, std::string(kMiB, static_cast<char>('a' + i % 26)));
    }
    ASSERT_EQ(volume_->sync(), ok());
  }
  void expect_pieces(InodeNo file, std::uint64_t pieces) {
    for (std::uint64_t i = 0; i < pieces; ++i) {
      ASSERT_EQ(read(file, i * kMiB, kMiB), std::string(kMiB, static_cast<char>('a' + i % 26)));
    }
  }
};

TEST_F(GrowTest, GivesTheNewBandsToFilesAtOnce) {
  write_pieces(create("old"), 10);
  const SpaceReport before = *volume_->space();
  device_->offer_bands(64);
  ASSERT_EQ(volume_->grow(0), ok());
  const SpaceReport after = *volume_->space();
  EXPECT_GT(after.total_blocks, before.total_blocks + 50 * 256);
  EXPECT_EQ(after.total_blocks - after.available_blocks,
            before.total_blocks - before.available_blocks);
  EXPECT_EQ(volume_->info().bands, 128u);
  EXPECT_EQ(volume_->info().total_bytes, 128 * kMiB);

  const std::uint64_t pieces = before.available_blocks / 256 + 32;
  write_pieces(create("new"), pieces);
  remount();
  EXPECT_EQ(volume_->info().bands, 128u);
  expect_pieces(lookup("old"), 10);
  expect_pieces(lookup("new"), pieces);
}

TEST_F(GrowTest, KeepsOpenFilesWithoutANameAndDirtyData) {
  const auto unnamed = volume_->create(kRootInode, "unnamed", 0600, {});
  ASSERT_TRUE(unnamed);
  const InodeNo file = unnamed->attributes.inode;
  ASSERT_EQ(volume_->unlink(kRootInode, "unnamed"), ok());
  write(file, 0, "not yet written back");
  device_->offer_bands(8);
  ASSERT_EQ(volume_->grow(0), ok());
  EXPECT_EQ(read(file), "not yet written back");
  volume_->release(unnamed->file);
}

TEST_F(GrowTest, RefusesWhenItCannotGrow) {
  EXPECT_EQ(volume_->grow(0), fail(Errc::kGrowNoRoom));
  device_->offer_bands(8);
  options_.read_only = true;
  remount();
  EXPECT_EQ(volume_->grow(0), fail(Errc::kReadOnly));
  EXPECT_EQ(device_->geometry().band_count(), 64u);
  options_.read_only = false;
  remount();
  volume_->shut_down();
  EXPECT_EQ(volume_->grow(0), fail(Errc::kShutDown));
  EXPECT_EQ(device_->geometry().band_count(), 64u);
  volume_.reset();
}

TEST_F(GrowTest, CompletesAnAttemptThatEnlargedOnlyTheDevice) {
  device_->offer_bands(8);
  ASSERT_EQ(device_->grow(0), ok());
  EXPECT_EQ(volume_->grow(0), ok());
  device_->offer_bands(8);
  ASSERT_EQ(device_->grow(0), ok());
  remount();
  EXPECT_EQ(volume_->grow(0), fail(Errc::kGrowNoRoom));
  EXPECT_EQ(volume_->info().bands, 80u);
  write_pieces(create("all"), volume_->space()->available_blocks / 256);
}

TEST_F(GrowTest, GivesTheLogNewBands) {
  device_->offer_bands(192);  // the middle of the device lies in the new bands then
  ASSERT_EQ(volume_->grow(0), ok());
  const std::uint64_t log_bands = volume_->info().log_bands;
  for (int i = 0; i < 40'000 && volume_->info().log_bands <= log_bands + 2; ++i) {
    create("some name that takes room in the metadata log " + std::to_string(i));
    if (i % 1000 == 0) {
      ASSERT_EQ(volume_->sync(), ok());
    }
  }
  EXPECT_GT(volume_->info().log_bands, log_bands + 2);
  remount();
}

// ---- Power cuts ---------------------------------------------------------------------------------

class GrowPowerCutTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBands = 32, kNewBands = 16;

  void record() {
    ASSERT_TRUE(mkfs::make_filesystem(*medium_, {}));
    medium_->forget_write_pointers();
    small_ = medium_->geometry();
    auto volume = Volume::mount(recorded_.emplace(*medium_), {.background = false});
    ASSERT_TRUE(volume);
    write(**volume, "old", kOldText);
    before_ = recorded_->op_count();
    medium_->offer_bands(kNewBands);
    ASSERT_EQ((*volume)->grow(0), ok());
    grown_ = recorded_->op_count();
    // More than the earlier bands have room for.
    write(**volume, "new", std::string((*volume)->space()->available_blocks * kBlockBytes, 'n'));
    written_ = recorded_->op_count();
    ASSERT_EQ((*volume)->unmount(), ok());
  }
  static void write(Volume& volume, const std::string& name, const std::string& text) {
    const auto made = volume.create(kRootInode, name, 0644, {});
    ASSERT_TRUE(made);
    volume.release(made->file);
    ASSERT_EQ(volume.write(made->attributes.inode, 0, bytes_of(text)), ok());
    ASSERT_EQ(volume.sync(), ok());
  }
  static std::string read(Volume& volume, const std::string& name) {
    const auto found = volume.lookup(kRootInode, name);
    if (!found) return std::string(describe(found.error()));
    std::string text(kMiB * 16, '?');
    const auto length = volume.read(found->inode, 0, std::as_writable_bytes(std::span(text)));
    text.resize(length.value_or(0));
    return text;
  }
  // The device after a power cut, with the earlier bands or all.
  std::unique_ptr<device::MemoryDevice> cut(std::size_t ops, device::Choice& choice,
                                            bool is_grown) const {
    device::Recording recording = recorded_->recording();
    if (!is_grown) recording.geometry = small_;
    return after_power_cut(recording, ops, choice);
  }
  void check(device::MemoryDevice& device, bool is_grown, bool has_new) {
    auto volume = Volume::mount(device, {.background = false});
    ASSERT_TRUE(volume) << describe(volume.error());
    EXPECT_EQ((*volume)->info().bands, is_grown ? kBands + kNewBands : kBands);
    EXPECT_EQ(read(**volume, "old"), kOldText);
    if (has_new) {
      EXPECT_EQ(read(**volume, "new").find_first_not_of('n'), std::string::npos);
    }
    if (!is_grown) device.offer_bands(kNewBands);
    if (!is_grown) {
      EXPECT_EQ((*volume)->grow(0), ok());
    }
    EXPECT_EQ(read(**volume, "old"), kOldText);
    ASSERT_EQ((*volume)->unmount(), ok());
    volume->reset();
    device.forget_write_pointers();
    fsck::expect_clean(device);
  }

  const std::string kOldText = std::string(300'000, 'o');
  std::unique_ptr<device::MemoryDevice> medium_ = test_device(kBands, 64);
  std::optional<device::RecordingDevice> recorded_;
  device::Geometry small_;
  std::size_t before_ = 0, grown_ = 0, written_ = 0;
};

TEST_F(GrowPowerCutTest, LeavesTheVolumeGrownOrNot) {
  record();
  const std::size_t all = recorded_->op_count();
  ASSERT_GT(grown_, before_);
  for (std::size_t ops = before_; ops <= all; ops += rounds_of_build(1, 7)) {
    for (std::uint64_t outcome = 0; outcome < 4; ++outcome) {
      SCOPED_TRACE(testing::Message() << ops << " of " << all << ", outcome " << outcome);
      device::KeepAll keep;
      device::LoseAll lose;
      device::RandomChoice random(ops * 16 + outcome);
      device::Choice& choice = outcome == 0   ? static_cast<device::Choice&>(keep)
                               : outcome == 1 ? static_cast<device::Choice&>(lose)
                                              : random;
      check(*cut(ops, choice, true), true, ops >= written_);
      if (ops > before_) continue;
      check(*cut(ops, choice, false), false, false);
    }
  }
}

// An older copy of the device's header, which knows fewer bands, does not open the volume.
TEST_F(GrowPowerCutTest, IsNotOpenedWithItsEarlierBandsOnceItHasGrown) {
  record();
  device::KeepAll keep;
  const auto device = cut(grown_, keep, false);
  const auto opened = Volume::mount(*device, {.background = false});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error(), Errc::kSuperblockBad);
}

}  // namespace
}  // namespace lazyfs::fs
