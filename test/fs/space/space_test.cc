// space() is right: what it reports as available can be written. However fast blocks are deleted
// and overwritten, a volume that has room never fails with kNoSpace.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <random>
#include <thread>

#include "base/endian.h"
#include "base/mutex.h"
#include "device/memory.h"
#include "mkfs/mkfs.h"
#include "fs/volume/volume.h"
#include "test/fsck/expect_clean.h"
#include "test/support/rounds.h"
#include "test/support/stats.h"
#include "test/support/test_device.h"

namespace lazyfs::fs {
namespace {

constexpr std::uint64_t kChunkBlocks = 16;

struct Setting {
  std::string_view name;
  std::uint32_t bands = 0, band_blocks = 0;
  bool background = false;
  std::uint32_t long_bands = 0;  // of these, eight times as long, around the centre
};
device::Geometry geometry_of(const Setting& setting) {
  device::Geometry geometry;
  geometry.band_blocks.assign(setting.bands, setting.band_blocks);
  geometry.band_kinds.assign(setting.bands, device::BandKind::kShingled);
  const auto first = geometry.band_blocks.begin() + (setting.bands - setting.long_bands) / 2;
  std::fill_n(first, setting.long_bands, 8 * setting.band_blocks);
  return geometry;
}
void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

// A small disk. Each block of a file holds its own number and a version.
class SpaceTest : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {}));
    mount();
  }
  void TearDown() override {
    if (volume_) remount();
  }
  void mount() {
    auto volume = Volume::mount(
        *device_, {.dirty_bytes = std::size_t{4} << 20, .background = GetParam().background});
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  // Checks the volume between the mounts.
  void remount() {
    ASSERT_TRUE(volume_->unmount());
    volume_.reset();
    device_->forget_write_pointers();
    fsck::expect_clean(*device_);
    device_->forget_write_pointers();
    mount();
  }
  InodeNo create(std::string_view name) {
    auto made = volume_->create(kRootInode, name, 0644, {});
    EXPECT_TRUE(made) << describe(made.error());
    volume_->release(made->file);
    return made->attributes.inode;
  }
  void remove(std::string_view name, InodeNo inode) {
    const auto removed = volume_->unlink(kRootInode, name);
    ASSERT_TRUE(removed) << describe(removed.error());
    volume_->forget(inode, 1);
  }
  static std::vector<std::byte> contents(std::uint64_t block, std::uint64_t blocks,
                                         std::uint64_t version) {
    std::vector<std::byte> bytes(blocks * kBlockBytes);
    for (std::uint64_t i = 0; i < blocks; ++i) {
      const auto at = std::span(bytes).subspan(i * kBlockBytes, kBlockBytes);
      std::ranges::fill(at, static_cast<std::byte>(version * 31 + block + i));
      store_le_at<std::uint64_t>(at, 0, block + i);
      store_le_at<std::uint64_t>(at, 8, version);
    }
    return bytes;
  }
  Result<> write(InodeNo file, std::uint64_t block, std::uint64_t blocks, std::uint64_t version) {
    return volume_->write(file, block * kBlockBytes, contents(block, blocks, version));
  }
  // Writes in chunks, up to the first error. Returns how many blocks were written.
  std::uint64_t fill(InodeNo file, std::uint64_t blocks, std::uint64_t version, Result<>& error) {
    std::uint64_t at = 0;
    while (at < blocks) {
      std::uint64_t count = std::min(kChunkBlocks, blocks - at);
      error = write(file, at, count, version);
      if (!error) error = write(file, at, count = 1, version);
      if (!error) break;
      at += count;
    }
    return at;
  }
  std::uint64_t fill(InodeNo file, std::uint64_t blocks, std::uint64_t version) {
    Result<> error = ok();
    const std::uint64_t written = fill(file, blocks, version, error);
    EXPECT_TRUE(error) << "at block " << written << ": " << describe(error.error());
    return written;
  }
  std::uint64_t available() { return volume_->space()->available_blocks; }
  void expect_contents(InodeNo file, std::uint64_t block, std::uint64_t blocks,
                       std::uint64_t version) {
    for (std::uint64_t at = block; at < block + blocks; at += kChunkBlocks) {
      const std::uint64_t count = std::min(kChunkBlocks, block + blocks - at);
      std::vector<std::byte> found(count * kBlockBytes);
      const auto length = volume_->read(file, at * kBlockBytes, found);
      ASSERT_TRUE(length) << describe(length.error());
      ASSERT_EQ(*length, found.size());
      ASSERT_TRUE(found == contents(at, count, version)) << "block " << at;
    }
  }
  void overwrite_full_disk() {
    const InodeNo file = create("all");
    Result<> error = ok();
    const std::uint64_t blocks = fill(file, UINT64_MAX / kBlockBytes / 2, 0, error);
    ASSERT_EQ(error.error(), Errc::kNoSpace);
    std::mt19937_64 random(5);
    std::vector<std::uint64_t> versions(blocks);
    for (std::uint64_t i = 1; i <= rounds_of_build(blocks, blocks / 4); ++i) {
      const std::uint64_t at = random() % blocks;
      const auto written = write(file, at, 1, i);
      ASSERT_TRUE(written) << "overwrite " << i << ": " << describe(written.error());
      versions[at] = i;
    }
    const auto synced = volume_->fsync(file, nullptr, false);
    ASSERT_TRUE(synced) << describe(synced.error());
    for (std::uint64_t at = 0; at < blocks; ++at) expect_contents(file, at, 1, versions[at]);
  }

  std::unique_ptr<device::MemoryDevice> device_ = test_device(geometry_of(GetParam()));
  std::unique_ptr<Volume> volume_;
};
class LongBandsTest : public SpaceTest {};

TEST_P(SpaceTest, WhatIsAvailableCanBeWrittenAndNoMore) {
  const InodeNo before = create("before");
  fill(before, 200, 1);
  ASSERT_TRUE(volume_->sync());
  for (std::uint64_t version = 2; version < 5; ++version) {
    const std::uint64_t said = available();
    const InodeNo file = create("all");
    Result<> error = ok();
    const std::uint64_t written = fill(file, 2 * said, version, error);
    ASSERT_EQ(error.error(), Errc::kNoSpace);
    EXPECT_GE(written, said - said / 100);
    EXPECT_LE(written, said + said / 100);
    EXPECT_LE(available(), said / 100);
    const auto synced = volume_->fsync(file, nullptr, false);
    ASSERT_TRUE(synced) << describe(synced.error());
    expect_contents(file, 0, written, version);
    expect_contents(before, 0, 200, 1);
    remove("all", file);
    EXPECT_GE(available(), said - said / 100) << "round " << version;
  }
}

TEST_P(SpaceTest, FullDiskTakesOverwrites) { overwrite_full_disk(); }

// The collector moves what is live in a long band to many short ones.
TEST_P(LongBandsTest, FullDiskTakesOverwrites) { overwrite_full_disk(); }

INSTANTIATE_TEST_SUITE_P(, LongBandsTest,
                         testing::Values(Setting{"replayed", 108, 32, false, 8},
                                         Setting{"threads", 108, 32, true, 8}),
                         [](const auto& setting) { return std::string(setting.param.name); });

TEST_P(SpaceTest, BlocksOfAFileAreCountedOnceWhileTheyAreOverwritten) {
  const auto blocks_of = [&](InodeNo file) {
    return volume_->get_attributes(file)->blocks_512 / 8;
  };
  const InodeNo dense = create("dense"), sparse = create("sparse");
  fill(dense, 100, 1);
  EXPECT_EQ(blocks_of(dense), 100u);
  for (const std::uint64_t block : {10, 50}) ASSERT_TRUE(write(sparse, block, 5, 1));
  EXPECT_EQ(blocks_of(sparse), 10u);
  ASSERT_TRUE(volume_->sync());
  ASSERT_TRUE(write(dense, 30, 5, 2));
  ASSERT_TRUE(write(dense, 99, 2, 2));
  EXPECT_EQ(blocks_of(dense), 101u);
  ASSERT_TRUE(write(sparse, 12, 5, 2));
  ASSERT_TRUE(write(sparse, 30, 2, 2));
  EXPECT_EQ(blocks_of(sparse), 14u);
  ASSERT_TRUE(volume_->sync());
  EXPECT_EQ(blocks_of(dense), 101u);
  EXPECT_EQ(blocks_of(sparse), 14u);
}

TEST_P(SpaceTest, FullDiskRefusesWritesIntoAHole) {
  const InodeNo holes = create("holes");
  ASSERT_TRUE(volume_->set_attributes(holes, {.size = 1000 * kBlockBytes}));
  ASSERT_TRUE(write(holes, 10, 1, 1));
  ASSERT_TRUE(volume_->sync());
  Result<> error = ok();
  fill(create("all"), UINT64_MAX / kBlockBytes / 2, 0, error);
  ASSERT_EQ(error.error(), Errc::kNoSpace);
  ASSERT_TRUE(volume_->sync());
  std::uint64_t taken = 0;
  while (taken < 900 && write(holes, 20 + taken, 1, 1)) ++taken;
  EXPECT_LE(taken, kChunkBlocks);
  EXPECT_TRUE(write(holes, 10, 1, 2));
  EXPECT_EQ(write(holes, 9, 2, 3).error(), Errc::kNoSpace);
  expect_contents(holes, 10, 1, 2);
}

// A file whose last block is partial is made larger: the block is written again, with zeros after
// its contents. It shares the block, so that this takes more space.
TEST_P(SpaceTest, FullDiskRefusesToGrowAFileWhoseLastBlockTakesSpace) {
  constexpr std::uint64_t kFiles = 800, kKept = 100;
  const InodeNo source = create("source");
  fill(source, 1, 1);
  ASSERT_TRUE(volume_->sync());
  std::vector<InodeNo> files;
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    files.push_back(create(std::to_string(i)));
    ASSERT_EQ(volume_->copy_range(source, 0, files[i], 0, kBlockBytes, false), kBlockBytes);
    ASSERT_TRUE(volume_->set_attributes(files[i], {.size = kKept}));
  }
  Result<> error = ok();
  fill(create("all"), UINT64_MAX / kBlockBytes / 2, 0, error);
  ASSERT_EQ(error.error(), Errc::kNoSpace);
  ASSERT_TRUE(volume_->sync());
  std::uint64_t grown = 0;
  for (const InodeNo file : files) {
    const auto done = volume_->set_attributes(file, {.size = 2 * kBlockBytes});
    grown += done.has_value();
    EXPECT_TRUE(done || done.error() == Errc::kNoSpace) << describe(done.error());
    EXPECT_EQ(volume_->get_attributes(file)->size, done ? 2 * kBlockBytes : kKept);
  }
  EXPECT_LE(grown, kFiles / 4);
  const auto synced = volume_->sync();
  EXPECT_TRUE(synced) << describe(synced.error());
  for (std::uint64_t i = 0; i < kFiles; ++i) remove(std::to_string(i), files[i]);
}

TEST_P(SpaceTest, FileIsRewrittenUntilFourTimesTheDiskIsWritten) {
  const std::uint64_t disk = available(), blocks = disk / 4;
  const InodeNo file = create("a");
  std::uint64_t version = 0;
  for (std::uint64_t written = 0; written < 4 * disk && !HasFailure(); written += blocks) {
    fill(file, blocks, ++version);
  }
  const auto synced = volume_->fsync(file, nullptr, false);
  ASSERT_TRUE(synced) << describe(synced.error());
  expect_contents(file, 0, blocks, version);
}

TEST_P(SpaceTest, BlocksOfAFullDiskAreRewrittenAtRandom) {
  constexpr std::uint64_t kFiles = 4;
  const std::uint64_t blocks = available() * 9 / 10 / kFiles;
  std::vector<InodeNo> files;
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    files.push_back(create("f" + std::to_string(i)));
    fill(files.back(), blocks, 0);
  }
  std::mt19937_64 random(3);
  std::vector<std::uint64_t> versions(kFiles * blocks);
  const std::uint64_t writes = rounds_of_build(2 * versions.size(), versions.size() / 2);
  for (std::uint64_t i = 1; i <= writes; ++i) {
    const std::uint64_t at = random() % versions.size();
    const auto written = write(files[at / blocks], at % blocks, 1, i);
    ASSERT_TRUE(written) << "overwrite " << i << ": " << describe(written.error());
    versions[at] = i;
  }
  const auto synced = volume_->sync();
  ASSERT_TRUE(synced) << describe(synced.error());
  for (std::uint64_t at = 0; at < versions.size(); ++at) {
    expect_contents(files[at / blocks], at % blocks, 1, versions[at]);
  }
}

TEST_P(SpaceTest, DiskIsFilledAndEmptiedManyTimes) {
  const std::uint64_t blocks = available() * 98 / 100;
  const std::uint64_t all = rounds(50, 10);
  for (std::uint64_t round = 0; round < all && !HasFailure(); ++round) {
    const InodeNo large = create("large"), small = create("small");
    fill(large, blocks - blocks / 8, round);
    fill(small, blocks / 8, round);
    if (round % 10 == 9) {
      const auto synced = volume_->fsync(small, nullptr, false);
      ASSERT_TRUE(synced) << describe(synced.error());
      expect_contents(small, 0, blocks / 8, round);
    }
    remove("large", large);
    remove("small", small);
  }
}

// Recording what was accepted takes room in the metadata log, which new files have filled by then.
TEST_P(SpaceTest, WhatIsAcceptedBeforeTheLogIsFullIsStored) {
  fill(create("large"), available() * 84 / 100, 1);
  ASSERT_TRUE(volume_->sync());
  constexpr std::uint64_t kApart = 9;  // so each block has an extent of its own
  const std::uint64_t blocks = std::min<std::uint64_t>(900, available() / 2);
  const InodeNo accepted = create("accepted");
  for (std::uint64_t i = 0; i < blocks; ++i) ASSERT_TRUE(write(accepted, i * kApart, 1, 1));
  std::vector<InodeNo> files;
  for (;;) {
    const std::string name = std::to_string(files.size()) + std::string(200, 'n');
    const auto made = volume_->create(kRootInode, name, 0644, {});
    if (!made) break;
    volume_->release(made->file);
    files.push_back(made->attributes.inode);
  }
  const auto synced = volume_->fsync(accepted, nullptr, false);
  ASSERT_TRUE(synced) << describe(synced.error());
  for (std::uint64_t i = 0; i < blocks; ++i) expect_contents(accepted, i * kApart, 1, 1);
  for (std::size_t i = 0; i < files.size(); ++i) {
    remove(std::to_string(i) + std::string(200, 'n'), files[i]);
  }
}

// Each hole makes the map of a copy larger and frees no block. While the disk has space, the log
// gets a band of it. The collector has to free that band, and to record in the full log what it
// moves.
TEST_P(SpaceTest, FullLogLetsHolesBePunchedIntoCopiesWhileThereIsSpace) {
  constexpr std::size_t kCopies = 150;
  const InodeNo large = create("large"), rest = create("rest");
  const std::uint64_t blocks = available() * 40 / 100 / kChunkBlocks * kChunkBlocks;
  for (std::uint64_t at = 0; at < blocks; at += kChunkBlocks) {
    ASSERT_TRUE(write(large, at, kChunkBlocks, 1));
    ASSERT_TRUE(write(rest, at, kChunkBlocks, 1));
  }
  ASSERT_TRUE(volume_->sync());
  std::vector<InodeNo> copies;
  for (std::size_t i = 0; i < kCopies; ++i) {
    copies.push_back(create(std::to_string(i)));
    const std::uint64_t bytes = blocks * kBlockBytes;
    ASSERT_EQ(volume_->copy_range(large, 0, copies[i], 0, bytes, false), bytes);
  }
  Result<> error = ok();
  fill(create("all"), UINT64_MAX / kBlockBytes / 2, 1, error);
  ASSERT_TRUE(volume_->sync());
  remove("rest", rest);  // its dead blocks share their bands with live ones
  Result<> punched = ok();
  for (std::size_t i = 0; i < kCopies && punched; ++i) {
    for (std::uint64_t block = 1; block < blocks && punched; block += 2) {
      punched = volume_->punch(copies[i], block * kBlockBytes, kBlockBytes, {});
    }
  }
  ASSERT_EQ(punched.error(), Errc::kLogFull);
  EXPECT_LT(available(), GetParam().band_blocks);
  for (std::size_t i = 0; i < kCopies; ++i) remove(std::to_string(i), copies[i]);
}

// The metadata log takes bands while small files are made, and returns them when the files are
// deleted.
TEST_P(SpaceTest, DiskIsFilledWithSmallFilesAndEmptiedManyTimes) {
  const InodeNo large = create("large");
  fill(large, available() * 84 / 100, 1);
  ASSERT_TRUE(volume_->sync());
  const SpaceReport before = *volume_->space();
  const std::vector<std::byte> small(1024, std::byte{7});
  constexpr std::size_t kFull = 100;
  const std::size_t all = rounds(kFull, 10);
  std::vector<std::size_t> fitting;
  for (std::size_t round = 0; round < all && !HasFailure(); ++round) {
    std::vector<InodeNo> files;
    for (;;) {
      const auto made = volume_->create(kRootInode, std::to_string(files.size()), 0644, {});
      if (!made) break;
      volume_->release(made->file);
      files.push_back(made->attributes.inode);
      if (!volume_->write(files.back(), 0, small)) break;
    }
    fitting.push_back(files.size());
    // The log has taken bands meanwhile; less is left than it and the files need for another.
    EXPECT_LT(available(), 2 * GetParam().band_blocks) << "round " << round;
    EXPECT_EQ(volume_->space()->total_blocks, before.total_blocks) << "round " << round;
    for (std::size_t i = 0; i < files.size() && !HasFailure(); ++i) {
      remove(std::to_string(i), files[i]);
    }
    if (round % 10 != 9) continue;
    // With threads, a cycle of the log that is under way may keep a band until the next collection.
    const auto is_as_before = [&] {
      return volume_->space()->total_blocks == before.total_blocks &&
             available() >= before.available_blocks;
    };
    for (int tries = 0; tries == 0 || (tries < 50 && !is_as_before()); ++tries) {
      const auto synced = volume_->sync();
      ASSERT_TRUE(synced) << describe(synced.error());
      const auto collected = volume_->collect_garbage();
      ASSERT_TRUE(collected) << describe(collected.error());
    }
    EXPECT_EQ(volume_->space()->total_blocks, before.total_blocks) << "round " << round;
    EXPECT_GE(available(), before.available_blocks) << "round " << round;
  }
  // How many files fit varies with the bands that the log has taken by the time the disk is full:
  // one holds a tenth of the files. The median must not fall.
  ASSERT_EQ(fitting.size(), all);
  if (all < kFull) return;
  std::ranges::sort(fitting.begin(), fitting.begin() + 50);
  std::ranges::sort(fitting.begin() + 50, fitting.end());
  EXPECT_GE(fitting[75] * 100, fitting[25] * 95);
  EXPECT_GE(std::min(fitting[0], fitting[50]) * 100, fitting[25] * 65);
}

INSTANTIATE_TEST_SUITE_P(, SpaceTest,
                         testing::Values(Setting{"replayed", 64, 128, false},
                                         Setting{"replayed_small_bands", 128, 48, false},
                                         Setting{"threads", 80, 128, true}),
                         [](const auto& setting) { return std::string(setting.param.name); });

// A clock that stands still, and calls at_last when the thread that made it has asked for the time
// often enough. Only that thread uses the members.
class AskedClock final : public Clock {
 public:
  Timestamp now() override { return {1'700'000'000, 0}; }
  std::chrono::nanoseconds monotonic() override {
    if (std::this_thread::get_id() == thread && asked_for && --*asked_for == 0) at_last();
    return std::chrono::hours(1);
  }
  const std::thread::id thread = std::this_thread::get_id();
  std::optional<int> asked_for;
  std::function<void()> at_last;
};

// The kernel gives lookups of a replaced file back only after rename() was answered.
TEST(ReplacedFileTest, WriterWaitsForTheSpaceOfAFileThatLostItsName) {
  const auto device = device::MemoryDevice::uniform(64, 16);
  ASSERT_TRUE(mkfs::make_filesystem(*device, {}));
  AskedClock clock;
  auto mounted = Volume::mount(*device, {.dirty_bytes = std::size_t{1} << 20}, clock);
  ASSERT_TRUE(mounted) << describe(mounted.error());
  Volume& volume = **mounted;
  const auto make = [&](std::string_view name) {
    const auto made = volume.create(kRootInode, name, 0644, {});
    EXPECT_TRUE(made) << describe(made.error());
    volume.release(made->file);
    return made->attributes.inode;
  };
  const InodeNo old = make("old");
  const std::vector<std::byte> block(kBlockBytes, std::byte{1});
  std::uint64_t blocks = 0;
  while (volume.write(old, blocks * kBlockBytes, block)) ++blocks;
  ASSERT_GT(blocks, 0u);
  const InodeNo fresh = make("new");
  ASSERT_TRUE(volume.rename(kRootInode, "new", kRootInode, "old", {}));
  clock.at_last = [&] { volume.forget(old, 1); };
  clock.asked_for = 8;  // of which some are asked for before the waiting begins
  EXPECT_TRUE(volume.write(fresh, 0, block));
  EXPECT_LE(clock.asked_for, 0);
  ASSERT_TRUE(volume.unmount());
}

// As the kernel writes back: several requests at once. The log grows for the data that is accepted.
// Bands that it gave back to a writer who has blocks enough would be missing at once, and another
// writer could find no room. The background may give bands back after a write-back.
TEST(ManyWritersTest, LogKeepsItsBandsWhileManyBlocksAreAvailable) {
  constexpr std::uint64_t kPieceBlocks = 256, kMany = 4096, kMostShrunk = 3;
  constexpr int kWriters = 8;
  const auto device = device::MemoryDevice::uniform(1200, 64);
  ASSERT_TRUE(mkfs::make_filesystem(*device, {.log_bytes = std::uint64_t{1} << 20}));
  auto volume = *Volume::mount(*device, {.dirty_bytes = std::size_t{32} << 20});
  const auto made = volume->create(kRootInode, "all", 0644, {});
  ASSERT_TRUE(made);
  volume->release(made->file);
  const std::vector<std::byte> piece(kPieceBlocks * kBlockBytes, std::byte{1});
  std::atomic<std::uint64_t> next{0};
  Mutex mu;
  std::uint64_t bands = 0, shrunk = 0;
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < kWriters; ++i) {
      writers.emplace_back([&] {
        while (volume->space()->available_blocks > kMany) {
          EXPECT_TRUE(volume->write(made->attributes.inode, next++ * piece.size(), piece));
          MutexLock lock(mu);
          const std::uint64_t now = stat_of(*volume, "metadata", "log_bands");
          shrunk += now < bands;
          bands = now;
        }
      });
    }
  }
  EXPECT_LE(shrunk, kMostShrunk);
  EXPECT_TRUE(volume->unmount());
}

}  // namespace
}  // namespace lazyfs::fs
