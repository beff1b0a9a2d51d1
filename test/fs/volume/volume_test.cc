#include <random>

#include "test/fs/volume_fixture.h"
#include "test/support/rounds.h"

namespace lazyfs::fs {
namespace {

TEST_F(VolumeTest, FileKeepsItsContentsOverARemount) {
  const InodeNo file = create("a");
  write(file, 0, "hello");
  EXPECT_EQ(read(file), "hello");
  remount();
  EXPECT_EQ(read(lookup("a")), "hello");
}

TEST_F(VolumeTest, LargeFileKeepsItsContentsOverARemount) {
  std::string text(3'000'000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 4096);
  write(create("big"), 0, text);
  remount();
  EXPECT_EQ(read(lookup("big"), 0, 4'000'000), text);
}

TEST_F(VolumeTest, WritingIntoTheMiddleKeepsTheRest) {
  std::string text(20'000, 'x');
  const InodeNo file = create("a");
  write(file, 0, text);
  ASSERT_TRUE(volume_->sync());
  write(file, 5000, "middle");
  text.replace(5000, 6, "middle");
  EXPECT_EQ(read(file), text);
  remount();
  EXPECT_EQ(read(lookup("a")), text);
}

TEST_F(VolumeTest, HoleReadsAsZeros) {
  const InodeNo file = create("a");
  write(file, 100'000, "end");
  std::string expected(100'000, '\0');
  expected += "end";
  EXPECT_EQ(read(file), expected);
  remount();
  EXPECT_EQ(read(lookup("a")), expected);
}

TEST_F(VolumeTest, TruncatedFileGrowsWithZeros) {
  const InodeNo file = create("a");
  write(file, 0, std::string(10'000, 'x'));
  ASSERT_TRUE(volume_->sync());
  ASSERT_TRUE(volume_->set_attributes(file, {.size = 4100}));
  ASSERT_TRUE(volume_->set_attributes(file, {.size = 9000}));
  const std::string expected = std::string(4100, 'x') + std::string(4900, '\0');
  EXPECT_EQ(read(file), expected);
  remount();
  EXPECT_EQ(read(lookup("a")), expected);
}

TEST_F(VolumeTest, FsyncedFileSurvivesAPowerCut) {
  const InodeNo file = create("a");
  write(file, 0, std::string(50'000, 'y'));
  ASSERT_TRUE(volume_->fsync(file, nullptr, false));
  create("b");
  lose_power();
  EXPECT_EQ(read(lookup("a")), std::string(50'000, 'y'));
  EXPECT_EQ(volume_->lookup(kRootInode, "b").error(), Errc::kNotFound);
}

TEST_F(VolumeTest, UnlinkedFileIsReadableUntilItIsForgotten) {
  const InodeNo file = create("a");
  write(file, 0, std::string(50'000, 'y'));
  ASSERT_TRUE(volume_->sync());
  ASSERT_TRUE(volume_->unlink(kRootInode, "a"));
  EXPECT_EQ(read(file).size(), 50'000u);
  const auto before = volume_->space()->free_blocks;
  volume_->forget(file, 1);
  volume_->tick();
  EXPECT_EQ(volume_->get_attributes(file).error(), Errc::kStale);
  EXPECT_GE(volume_->space()->free_blocks, before + 12);
}

TEST_F(VolumeTest, OrphanOfACrashIsDeletedAtTheNextMount) {
  const auto free_blocks = volume_->space()->free_blocks;
  const InodeNo file = create("a");
  write(file, 0, std::string(50'000, 'y'));
  ASSERT_TRUE(volume_->unlink(kRootInode, "a"));
  ASSERT_TRUE(volume_->sync());
  lose_power();
  volume_->tick();
  EXPECT_EQ(volume_->get_attributes(file).error(), Errc::kStale);
  EXPECT_EQ(volume_->space()->free_blocks, free_blocks);
}

TEST_F(VolumeTest, SpaceCountsTheInodesInUse) {
  const auto in_use = [&] {
    const SpaceReport space = *volume_->space();
    return space.total_files - space.free_files;
  };
  EXPECT_EQ(in_use(), 1u);
  const InodeNo file = create("file"), other = create("other");
  ASSERT_TRUE(volume_->make_directory(kRootInode, "directory", 0755, {}));
  ASSERT_TRUE(volume_->make_symlink(kRootInode, "symlink", "target", {}));
  ASSERT_TRUE(volume_->link(file, kRootInode, "again"));
  EXPECT_EQ(in_use(), 5u);
  write(file, 0, std::string(50'000, 'y'));
  // Makes a shared-extent inode.
  ASSERT_TRUE(volume_->copy_range(file, 0, other, 0, 50'000, false));
  ASSERT_TRUE(volume_->sync());
  EXPECT_EQ(in_use(), 5u);
  ASSERT_TRUE(volume_->unlink(kRootInode, "other"));
  EXPECT_EQ(in_use(), 5u);  // the kernel knows it
  volume_->forget(other, 1);
  EXPECT_EQ(in_use(), 4u);
  ASSERT_TRUE(volume_->sync());
  create("never durable");
  EXPECT_EQ(in_use(), 5u);
  lose_power();
  volume_->tick();
  EXPECT_EQ(in_use(), 4u);
  remount();
  EXPECT_EQ(in_use(), 4u);
}

TEST_F(VolumeTest, OrphanOfACrashIsNoInodeInUseAfterTheNextMount) {
  const InodeNo file = create("a");
  write(file, 0, std::string(50'000, 'y'));
  ASSERT_TRUE(volume_->unlink(kRootInode, "a"));
  ASSERT_TRUE(volume_->sync());
  lose_power();
  volume_->tick();
  const SpaceReport space = *volume_->space();
  EXPECT_EQ(space.total_files - space.free_files, 1u);
}

TEST_F(VolumeTest, UnnamedFileThatIsTruncatedIsDeletedAfterACrash) {
  const auto free_blocks = volume_->space()->free_blocks;
  const InodeNo file = create("a");
  write(file, 0, std::string(50'000, 'y'));
  ASSERT_TRUE(volume_->sync());
  ASSERT_TRUE(volume_->unlink(kRootInode, "a"));
  ASSERT_TRUE(volume_->set_attributes(file, {.size = 20'000}));
  ASSERT_TRUE(volume_->sync());
  lose_power();
  volume_->tick();
  EXPECT_EQ(volume_->get_attributes(file).error(), Errc::kStale);
  EXPECT_EQ(volume_->space()->free_blocks, free_blocks);
}

TEST_F(VolumeTest, InlineFileOccupiesSpaceAndAHoleDoesNot) {
  const auto sectors = [&](std::string_view name) {
    return volume_->get_attributes(lookup(name))->blocks_512;
  };
  write(create("small"), 0, std::string(900, 's'));
  write(create("grown"), 0, "g");
  create("empty");
  ASSERT_TRUE(volume_->set_attributes(create("hole"), {.size = 900}));
  ASSERT_TRUE(volume_->sync());
  ASSERT_TRUE(volume_->set_attributes(lookup("grown"), {.size = 100'000}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(sectors("small"), 2u);
    EXPECT_EQ(sectors("grown"), 1u);
    EXPECT_EQ(sectors("empty"), 0u);
    EXPECT_EQ(sectors("hole"), 0u);
    remount();
  }
}

// So many blocks wait that they are not looked up one by one.
TEST_F(VolumeTest, BlocksOfAFileAreCountedWhileManyWait) {
  const auto blocks = [&](InodeNo file) {
    return volume_->get_attributes(file)->blocks_512 * 512 / kBlockBytes;
  };
  const InodeNo file = create("a");
  write(file, 0, std::string(3000 * kBlockBytes, 'x'));
  ASSERT_TRUE(volume_->sync());
  write(file, 1000 * kBlockBytes, std::string(2500 * kBlockBytes, 'y'));
  EXPECT_EQ(blocks(file), 3500u);
  ASSERT_TRUE(volume_->sync());
  EXPECT_EQ(blocks(file), 3500u);
}

// On 64 bands of 1 MiB: the writes amount to many times the size of the disk.
TEST_F(VolumeTest, RewritingAFileManyTimesDoesNotFillTheDisk) {
  const InodeNo file = create("a");
  const std::string text(1 << 20, 'z');
  for (int round = 0; round < 200; ++round) {
    for (std::uint64_t i = 0; i < 4; ++i) write(file, i << 20, text);
    ASSERT_TRUE(volume_->fsync(file, nullptr, false)) << "round " << round;
    volume_->tick();
  }
  EXPECT_EQ(read(file, 3 << 20), text);
}

// A file larger than one append is written in several groups. The rest after the first group came
// back to the dirty list, and was taken again while the pass still held the inode's token.
TEST_F(VolumeTest, FileOfSeveralAppendsIsWrittenInOnePass) {
  const InodeNo file = create("a");
  std::string text(13'000'000, 'z');
  for (std::size_t i = 0; i < text.size(); i += 4096) text[i] = static_cast<char>(i >> 12);
  for (std::size_t at = 0; at < text.size(); at += 1'000'000) {
    write(file, at, std::string_view(text).substr(at, 1'000'000));
  }
  ASSERT_TRUE(volume_->sync());
  lose_power();
  EXPECT_EQ(read(lookup("a"), 0, text.size()), text);
}

// The last block was written to again while it was being written back; its extent was recorded with
// a size that ended before it.
TEST_F(VolumeTest, FileThatGrowsWhileItIsWrittenBackKeepsItsLastBlockInTheTree) {
  options_.commit_interval = std::chrono::milliseconds(0);
  remount();
  const InodeNo file = create("a");
  write(file, 0, std::string(10'000, 'x'));
  bool grown = false;
  faulty_.fail_when([&](const device::CallInfo& call) -> std::optional<device::Fault> {
    if (call.call == device::Call::kAppend && call.blocks == 3 && !grown) {
      grown = true;
      write(file, 10'000, "more");
      write(file, 0, "y");
    }
    return std::nullopt;
  });
  volume_->tick();
  faulty_.mend();
  EXPECT_TRUE(grown);
  faulty_.mend();  // before `grown` is deleted
  ASSERT_TRUE(volume_->fsync_directory(kRootInode));
  lose_power();
  EXPECT_TRUE(read(lookup("a")) == std::string(10'000, 'x'));
}

// After the crash the tree has the new size, and the last block from before the truncation.
TEST_F(VolumeTest, FileTruncatedBeforeACrashGrowsWithZerosAfterIt) {
  for (const bool by_writing : {false, true}) {
    const std::string name = by_writing ? "w" : "t";
    const InodeNo file = create(name);
    write(file, 0, std::string(10'000, 'x'));
    ASSERT_TRUE(volume_->sync());
    ASSERT_TRUE(volume_->set_attributes(file, {.size = 4100}));
    ASSERT_TRUE(volume_->fsync_directory(kRootInode));
    lose_power();
    const InodeNo again = lookup(name);
    EXPECT_TRUE(read(again) == std::string(4100, 'x'));
    if (by_writing) {
      write(again, 4990, "0123456789");
    } else {
      ASSERT_TRUE(volume_->set_attributes(again, {.size = 5000}));
    }
    std::string expected = std::string(4100, 'x') + std::string(900, '\0');
    if (by_writing) expected.replace(4990, 10, "0123456789");
    EXPECT_TRUE(read(again) == expected) << name;
    remount();
    EXPECT_TRUE(read(lookup(name)) == expected) << name;
  }
}

TEST_F(VolumeTest, FullDiskIsNoSpaceUntilFilesAreDeleted) {
  const InodeNo file = create("a");
  const std::string text(1 << 20, 'z');
  std::uint64_t offset = 0;
  Result<> last = ok();
  while ((last = volume_->write(file, offset, bytes_of(text)))) offset += text.size();
  EXPECT_EQ(last.error(), Errc::kNoSpace);
  ASSERT_TRUE(volume_->sync());
  EXPECT_EQ(read(file, offset - text.size()), text);
  ASSERT_TRUE(volume_->unlink(kRootInode, "a"));
  volume_->forget(file, 1);
  volume_->tick();
  write(create("b"), 0, text);
  ASSERT_TRUE(volume_->sync());
}

// In bands of 16 blocks a transaction of the metadata log took 12 blocks at most, and a change that
// needed more of them failed, even the one that removed a file.
TEST_F(VolumeTest, FilesAreRemovedFromAFullDiskOfTinyBands) {
  ASSERT_TRUE(volume_->unmount());
  volume_.reset();
  const auto tiny = test_device(256, 16);
  ASSERT_TRUE(mkfs::make_filesystem(*tiny, {}));
  for (int round = 0; round < 3; ++round) {
    auto mounted = Volume::mount(*tiny, options_);
    ASSERT_TRUE(mounted) << describe(mounted.error());
    volume_ = std::move(*mounted);
    const std::string text(9000, 'z');
    std::vector<std::string> names;
    Result<> last = ok();
    while (last && names.size() < 100'000) {
      const std::string name = std::to_string(names.size()) + std::string(200, 'n');
      const auto made = volume_->create(kRootInode, name, 0644, {});
      if (!made) {
        last = fail(made.error());
        break;
      }
      volume_->release(made->file);
      names.push_back(name);
      last = volume_->write(made->attributes.inode, 0, bytes_of(text));
      volume_->forget(made->attributes.inode, 1);
      if (last && names.size() % 10 == 0) last = volume_->sync();
    }
    EXPECT_EQ(last.error(), Errc::kNoSpace);
    EXPECT_GT(names.size(), 500u);
    for (const std::string& name : names) {
      const auto removed = volume_->unlink(kRootInode, name);
      ASSERT_TRUE(removed) << name << ": " << describe(removed.error());
    }
    ASSERT_TRUE(volume_->collect_garbage());
    ASSERT_TRUE(volume_->unmount());
    volume_.reset();
    const auto store = meta::Store::open(*tiny, {.background = false});
    ASSERT_TRUE(store);
    const auto print = [](const std::string& problem) { ADD_FAILURE() << problem; };
    EXPECT_EQ(fsck::check(**store, *tiny, {}, print)->inodes, 1u);
  }
}

// Single blocks overwritten at random make the largest possible amount of metadata: the log grows
// into the space kept back for it, and the collector always has a band to move blocks to.
TEST_F(VolumeTest, RandomOverwritesOfAFullDiskNeverFail) {
  const InodeNo file = create("a");
  const std::uint64_t blocks = volume_->space()->available_blocks * 9 / 10;
  const std::string block(kBlockBytes, 'o');
  for (std::uint64_t i = 0; i < blocks; ++i) write(file, i * kBlockBytes, block);
  ASSERT_TRUE(volume_->sync());
  std::minstd_rand random(7);
  for (std::uint64_t i = 0; i < rounds_of_build(3 * blocks, blocks / 2); ++i) {
    const auto done = volume_->write(file, random() % blocks * kBlockBytes, bytes_of(block));
    ASSERT_TRUE(done) << "overwrite " << i << ": " << describe(done.error());
    if (i % 200 == 0) {
      const auto synced = volume_->fsync(file, nullptr, false);
      ASSERT_TRUE(synced) << "overwrite " << i << ": " << describe(synced.error());
      volume_->tick();
    }
  }
  ASSERT_TRUE(volume_->sync());
  EXPECT_EQ(volume_->space()->available_blocks > 0, true);
}

TEST_F(VolumeTest, RandomWritesMatchAModelWhileTheCollectorWorks) {
  const char* given = std::getenv("LAZYFS_SEED");
  const auto seed = given ? std::stoul(given) : std::random_device{}();
  SCOPED_TRACE("LAZYFS_SEED=" + std::to_string(seed));
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  std::vector<std::string> model(8);
  std::vector<InodeNo> files;
  for (int i = 0; i < 8; ++i) files.push_back(create("f" + std::to_string(i)));
  for (int step = 0; step < 4000; ++step) {
    const std::size_t f = random() % 8;
    const std::uint64_t offset = random() % 4'000'000;
    const std::size_t length = 1 + random() % (random() % 8 == 0 ? 200'000 : 5'000);
    switch (random() % 12) {
      case 0: {
        const std::uint64_t size = random() % 4'000'000;
        ASSERT_TRUE(volume_->set_attributes(files[f], {.size = size}));
        model[f].resize(size);
        break;
      }
      case 1: ASSERT_TRUE(volume_->fsync(files[f], nullptr, false)); break;
      case 2: volume_->tick(); break;
      case 3:
        EXPECT_EQ(read(files[f], offset, length),
                  offset >= model[f].size() ? "" : model[f].substr(offset, length));
        break;
      default: {
        const std::string text(length, static_cast<char>('a' + random() % 26));
        write(files[f], offset, text);
        if (model[f].size() < offset + length) model[f].resize(offset + length);
        model[f].replace(offset, length, text);
      }
    }
    if (HasFailure()) FAIL() << "at step " << step;
  }
  remount();
  for (std::size_t f = 0; f < 8; ++f) {
    EXPECT_TRUE(read(lookup("f" + std::to_string(f)), 0, 5'000'000) == model[f]) << "file " << f;
  }
}

}  // namespace
}  // namespace lazyfs::fs
