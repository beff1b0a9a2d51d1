// Copies that share blocks (fs/file/file_copier.h, fs/file/shared_extents.h).
#include <algorithm>
#include <random>
#include <thread>

#include "test/fs/volume_fixture.h"
#include "test/support/seed.h"
#include "test/support/stats.h"
#include "test/support/units.h"

namespace lazyfs::fs {
namespace {

// `length` bytes that differ from block to block and from `seed` to seed.
std::string text_of(std::size_t length, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(length, '\0');
  for (char& c : text) c = static_cast<char>('a' + random() % 26);
  return text;
}

class CopyTest : public VolumeTest {
 protected:
  std::uint64_t live_blocks() {
    EXPECT_TRUE(volume_->sync());
    return stat_of(*volume_, "space", "live_blocks");
  }
  std::uint64_t blocks_of(InodeNo inode) { return volume_->get_attributes(inode)->blocks_512 / 8; }
  InodeNo file_of(std::string_view name, const std::string& text) {
    const InodeNo file = create(name);
    write(file, 0, text);
    EXPECT_TRUE(volume_->sync());
    return file;
  }
  // Until all is copied.
  void copy(InodeNo from, std::uint64_t from_offset, InodeNo to, std::uint64_t to_offset,
            std::uint64_t length) {
    for (std::uint64_t done = 0; done < length;) {
      const auto copied =
          volume_->copy_range(from, from_offset + done, to, to_offset + done, length - done, false);
      ASSERT_TRUE(copied) << describe(copied.error());
      ASSERT_GT(*copied, 0u);
      done += *copied;
    }
  }
  InodeNo copy_of(InodeNo from, std::string_view name, std::uint64_t length) {
    const InodeNo to = create(name);
    copy(from, 0, to, 0, length);
    return to;
  }
};

TEST_F(CopyTest, ACopyCostsNoDataBlocksAndReadsTheSame) {
  const std::string text = text_of(300 * kB + 100, 1);
  const InodeNo a = file_of("a", text);
  const std::uint64_t live = live_blocks();
  const InodeNo b = copy_of(a, "b", text.size());
  EXPECT_EQ(live_blocks(), live);
  EXPECT_EQ(blocks_of(a), 301u);
  EXPECT_EQ(blocks_of(b), 301u);
  EXPECT_EQ(read(a, 0, 2 << 20), text);
  EXPECT_EQ(read(b, 0, 2 << 20), text);
  remount();
  EXPECT_EQ(read(lookup("a"), 0, 2 << 20), text);
  EXPECT_EQ(read(lookup("b"), 0, 2 << 20), text);
  EXPECT_EQ(volume_->get_attributes(lookup("b"))->size, text.size());
}

// The shared-extent inode ends where the block does, a byte past the largest file.
TEST_F(CopyTest, TheLastBlockOfTheLargestFileIsShared) {
  const std::uint64_t last = (blocks_for(kMaxFileBytes) - 1) * kBlockBytes;
  const std::string text = text_of(kMaxFileBytes - last, 1);
  const InodeNo a = create("a"), b = create("b");
  write(a, last, text);
  copy(a, last, b, last, text.size());
  EXPECT_EQ(read(a, last), text);
  EXPECT_EQ(read(b, last), text);
  remount();
  EXPECT_EQ(read(lookup("a"), last), text);
  EXPECT_EQ(read(lookup("b"), last), text);
  ASSERT_TRUE(volume_->unlink(kRootInode, "a"));
  ASSERT_TRUE(volume_->sync());
  EXPECT_EQ(read(lookup("b"), last), text);
}

TEST_F(CopyTest, AWriteToOneCopyIsNotSeenInTheOther) {
  const std::string text = text_of(20 * kB, 1), new_text = text_of(3 * kB, 2);
  const InodeNo a = file_of("a", text);
  const InodeNo b = copy_of(a, "b", text.size());
  const std::uint64_t live = live_blocks();
  write(a, 5 * kB, new_text);
  write(b, 9 * kB, "!");
  EXPECT_EQ(live_blocks(), live + 4);
  remount();
  std::string a_text = text, b_text = text;
  a_text.replace(5 * kB, new_text.size(), new_text);
  b_text[9 * kB] = '!';
  EXPECT_EQ(read(lookup("a")), a_text);
  EXPECT_EQ(read(lookup("b")), b_text);
}

TEST_F(CopyTest, BlocksDieWithTheirLastReference) {
  const std::uint64_t before = live_blocks();
  const std::string text = text_of(50 * kB, 1);
  const InodeNo a = file_of("a", text);
  const InodeNo b = copy_of(a, "b", text.size()), c = copy_of(b, "c", text.size());
  const std::uint64_t live = live_blocks();
  ASSERT_TRUE(volume_->unlink(kRootInode, "a"));
  volume_->forget(a, 1);
  volume_->tick();
  EXPECT_EQ(live_blocks(), live);
  EXPECT_EQ(read(c), text);
  AttributeChange cut;
  cut.size = 10 * kB;
  ASSERT_TRUE(volume_->set_attributes(b, cut));
  ASSERT_TRUE(volume_->punch(c, 0, 20 * kB, {}));
  EXPECT_EQ(live_blocks(), live - 10);  // both have given up 10 to 19
  ASSERT_TRUE(volume_->punch(c, 0, 50 * kB, {}));
  ASSERT_TRUE(volume_->punch(b, 0, 10 * kB, {}));
  EXPECT_EQ(live_blocks(), before);
}

TEST_F(CopyTest, SharedBlocksOfARemovedFileDoNotCountAsFree) {
  const std::string text = text_of(50 * kB, 1);
  const InodeNo a = file_of("a", text);
  const InodeNo b = copy_of(a, "b", text.size()), c = copy_of(b, "c", text.size());
  ASSERT_TRUE(volume_->sync());
  const std::uint64_t free = volume_->space()->free_blocks;
  const auto remove = [this](std::string_view name, InodeNo inode) {
    ASSERT_TRUE(volume_->unlink(kRootInode, name));
    volume_->forget(inode, 1);
    ASSERT_EQ(stats_of(*volume_)["inodes_to_delete"].number(), 1u);
  };
  for (const auto& [name, inode] : {std::pair("a", a), std::pair("c", c)}) {
    remove(name, inode);
    EXPECT_EQ(volume_->space()->free_blocks, free) << name;
    volume_->tick();
    EXPECT_EQ(volume_->space()->free_blocks, free) << name;
  }
  remount();
  remove("b", lookup("b"));
  EXPECT_EQ(volume_->space()->free_blocks, free);
  volume_->tick();
  EXPECT_GE(volume_->space()->free_blocks, free + 50);
}

TEST_F(CopyTest, DirtyBlocksAreCopiedToo) {
  const std::string text = text_of(9 * kB, 1);
  const InodeNo a = create("a");
  write(a, 0, text);
  const InodeNo b = copy_of(a, "b", text.size());
  EXPECT_EQ(read(b), text);
  remount();
  EXPECT_EQ(read(lookup("b")), text);
}

TEST_F(CopyTest, RangesWithDifferentOffsetsInTheirBlocksAreCopiedByteByByte) {
  const std::string a_text = text_of(40 * kB, 1), b_text = text_of(30 * kB, 2);
  const struct {
    std::uint64_t from, to, length;
  } cases[] = {{0, 8 * kB, 4 * kB},
               {3 * kB, kB, 17 * kB},
               {100, 200, 9 * kB},
               {100, 2 * kB + 100, 9 * kB},
               {kB - 1, 2 * kB - 1, 2},
               {39 * kB + 5, 29 * kB + 5, 10},
               {30 * kB, 20 * kB, 10 * kB},
               {5 * kB, 29 * kB + 1, 3 * kB},
               {7 * kB + 9, kB + 9, 2 * kB},
               {0, 30 * kB + 700, 5 * kB},
               {0, 33 * kB, kB},
               {11 * kB, 0, 29 * kB - 3}};
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    SCOPED_TRACE(i);
    const auto& c = cases[i];
    const InodeNo a = file_of("a" + std::to_string(i), a_text);
    const InodeNo b = file_of("b" + std::to_string(i), b_text);
    copy(a, c.from, b, c.to, c.length);
    std::string expected = b_text;
    expected.resize(std::max<std::size_t>(expected.size(), c.to + c.length));
    expected.replace(c.to, c.length, a_text.substr(c.from, c.length));
    EXPECT_EQ(read(b), expected);
    EXPECT_EQ(read(a), a_text);
    remount();
    EXPECT_EQ(read(lookup("b" + std::to_string(i))), expected);
  }
}

TEST_F(CopyTest, HolesAreCopiedAsHolesAndInlineFilesByTheirBytes) {
  const InodeNo a = create("a"), b = file_of("b", text_of(40 * kB, 2));
  write(a, 10 * kB, text_of(2 * kB, 1));
  write(a, 39 * kB, text_of(kB, 3));
  const std::string a_text = read(a);
  copy(a, 0, b, 0, 40 * kB);
  EXPECT_EQ(read(b), a_text);
  ASSERT_TRUE(volume_->sync());
  EXPECT_EQ(blocks_of(b), 3u);
  const InodeNo small = file_of("small", "a few bytes");
  copy(small, 0, b, 0, 11);
  copy(small, 0, create("other"), 0, 11);
  remount();
  EXPECT_EQ(read(lookup("other")), "a few bytes");
  EXPECT_EQ(read(lookup("b")), "a few bytes" + a_text.substr(11));
}

TEST_F(CopyTest, ACopiedLastBlockBringsNoBytesPastTheEnd) {
  const InodeNo a = file_of("a", text_of(3 * kB, 1));
  AttributeChange cut;
  cut.size = 2 * kB + 7;  // its last block keeps the cut bytes in the band
  ASSERT_TRUE(volume_->set_attributes(a, cut));
  const InodeNo b = copy_of(a, "b", 2 * kB + 7);
  cut.size = 3 * kB;
  ASSERT_TRUE(volume_->set_attributes(b, cut));
  const std::string expected = read(a) + std::string(kB - 7, '\0');
  EXPECT_EQ(read(b), expected);
  remount();
  EXPECT_EQ(read(lookup("b")), expected);
  EXPECT_EQ(read(lookup("a")), expected.substr(0, 2 * kB + 7));
}

TEST_F(CopyTest, WithinOneFileAndOverAnEarlierCopyOfItself) {
  std::string text = text_of(30 * kB, 1);
  const InodeNo a = file_of("a", text);
  copy(a, 0, a, 10 * kB, 8 * kB);  // blocks of one append record on both sides
  copy(a, 2 * kB, a, 40 * kB, 5 * kB);
  copy(a, 10 * kB, a, 0, 8 * kB);  // back to where it came from
  text.resize(45 * kB);
  text.replace(10 * kB, 8 * kB, text.substr(0, 8 * kB));
  text.replace(40 * kB, 5 * kB, text.substr(2 * kB, 5 * kB));
  EXPECT_EQ(read(a), text);
  const auto overlapping = volume_->copy_range(a, 0, a, kB, 2 * kB, false);
  EXPECT_EQ(overlapping.error(), Errc::kInvalid);
  const InodeNo b = copy_of(a, "b", text.size());
  copy(a, 0, b, 0, text.size());
  copy(b, 0, a, 0, text.size());
  remount();
  EXPECT_EQ(read(lookup("a")), text);
  EXPECT_EQ(read(lookup("b")), text);
}

TEST_F(CopyTest, TheCollectorMovesSharedBlocksOnceForAllFiles) {
  const std::string text = text_of(200 * kB, 1);
  const InodeNo a = create("a"), filler = create("filler");
  for (std::uint64_t i = 0; i < 200; ++i) {  // mixed with what dies
    write(a, i * kB, text.substr(i * kB, kB));
    write(filler, i * kB, text_of(kB, 2));
    ASSERT_TRUE(volume_->sync());
  }
  const InodeNo b = copy_of(a, "b", text.size());
  ASSERT_TRUE(volume_->unlink(kRootInode, "filler"));
  volume_->forget(filler, 1);
  volume_->tick();
  ASSERT_TRUE(volume_->sync());
  const auto moved = [&] { return stat_of(*volume_, "data", "collector_blocks_written"); };
  const std::uint64_t before = moved();
  ASSERT_TRUE(volume_->collect_garbage());
  EXPECT_GE(moved(), before + 200);
  EXPECT_EQ(read(a), text);
  EXPECT_EQ(read(b), text);
  remount();
  EXPECT_EQ(read(lookup("a")), text);
  EXPECT_EQ(read(lookup("b")), text);
}

TEST_F(CopyTest, TheSharedExtentInodeIsNeverFound) {
  const InodeNo a = file_of("a", text_of(9 * kB, 1));
  copy_of(a, "b", 9 * kB);
  ASSERT_TRUE(volume_->sync());
  std::size_t found = 0;
  for (std::uint64_t i = 1; i < 32; ++i) {
    const auto inode = volume_->lookup_inode(InodeNo{i});
    if (inode) volume_->forget(inode->inode, 1);
    if (inode) ++found;
  }
  EXPECT_EQ(found, 3u);  // the root and the two files
}

TEST_F(CopyTest, WhatWasSyncedIsThereAfterAPowerCut) {
  const std::string text = text_of(70 * kB, 1);
  const InodeNo a = file_of("a", text);
  copy_of(a, "b", text.size());
  ASSERT_TRUE(volume_->fsync(lookup("b"), nullptr, false));
  lose_power();
  EXPECT_EQ(read(lookup("b")), text);
  write(lookup("a"), 0, "!");
  lose_power();
  EXPECT_EQ(read(lookup("a")), text);
}

TEST_F(CopyTest, OnAFullDiskCopiesAreMadeAndOverwritingThemIsRefusedInTime) {
  const std::string text = text_of(64 * kB, 1);
  const InodeNo a = file_of("a", text), filler = create("filler");
  for (std::uint64_t at = 0;; at += text.size()) {
    if (!volume_->write(filler, at, bytes_of(text))) break;
  }
  ASSERT_TRUE(volume_->sync());
  const InodeNo b = copy_of(a, "b", text.size());
  // There is room for some blocks that take the place of others, but not for any number.
  std::uint64_t written = 0;
  for (std::uint64_t round = 0; round < 64; ++round) {
    const auto done = volume_->write(b, round * kB, bytes_of(std::string(kB, '!')));
    if (!done) {
      EXPECT_EQ(done.error(), Errc::kNoSpace);
      break;
    }
    ++written;
    ASSERT_TRUE(volume_->sync());
  }
  EXPECT_EQ(read(a), text);
  EXPECT_EQ(read(b), std::string(written * kB, '!') + text.substr(written * kB));
  for (std::uint64_t i = 0; i < 64; ++i) {  // the source's own ones can be once more
    ASSERT_TRUE(volume_->unlink(kRootInode, "b") || i > 0);
    if (i == 0) volume_->forget(b, 1);
    volume_->tick();
    write(a, i * kB, "?");
    ASSERT_TRUE(volume_->sync());
  }
}

TEST_F(CopyTest, ADamagedSharedBlockIsNamedInEachFile) {
  const InodeNo a = file_of("a", text_of(9 * kB, 1));
  const InodeNo b = create("b");
  copy(a, 2 * kB, b, 5 * kB, 3 * kB);
  ASSERT_TRUE(volume_->sync());
  ScrubPlace from;
  const auto whole = volume_->scrub(from, 1000);
  ASSERT_TRUE(whole);
  EXPECT_TRUE(whole->damaged.empty());
  EXPECT_EQ(whole->blocks, 9u + 3u);
}

// Files of whole blocks, each of one letter, so that any block that is read must be of one.
TEST_F(CopyTest, ConcurrentCopiesSeeWholeBlocksOnly) {
  ASSERT_TRUE(volume_->unmount());
  volume_.reset();
  options_.background = true;
  options_.gc_low_percent = 99;
  options_.gc_high_percent = 98;
  mount();
  constexpr std::uint64_t kFiles = 4, kBlocks = 48;
  constexpr int kThreads = 4, kSteps = 400;
  std::vector<InodeNo> files;
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    files.push_back(file_of("f" + std::to_string(i), std::string(kBlocks * kB, 'a')));
  }
  const auto work = [&](unsigned thread) {
    std::mt19937 random(test_seed() + thread);
    const auto block = [&] { return random() % kBlocks * kB; };
    std::string text(kBlocks * kB, '\0');
    for (int step = 0; step < kSteps; ++step) {
      const InodeNo file = files[random() % kFiles];
      const unsigned what = random() % 10;
      if (what < 5) {
        const auto copied = volume_->copy_range(files[random() % kFiles], block(), file, block(),
                                                (1 + random() % 16) * kB, false);
        EXPECT_TRUE(copied || copied.error() == Errc::kInvalid) << describe(copied.error());
      } else if (what < 7) {
        const std::string letter((1 + random() % 8) * kB, static_cast<char>('a' + random() % 26));
        EXPECT_TRUE(volume_->write(file, block(), bytes_of(letter)));
      } else if (what == 7) {
        EXPECT_TRUE(volume_->punch(file, block(), (1 + random() % 8) * kB, {}));
      } else if (what == 8 && step % 10 == 0) {
        EXPECT_TRUE(volume_->collect_garbage());
      } else {
        const auto got = volume_->read(file, 0, std::as_writable_bytes(std::span(text)));
        ASSERT_TRUE(got) << describe(got.error());
        for (std::size_t at = 0; at + kB <= *got; at += kB) {
          const auto one = std::string_view(text).substr(at, kB);
          EXPECT_EQ(one.find_first_not_of(one[0]), std::string_view::npos) << at;
        }
      }
    }
  };
  SCOPED_TRACE(seed_trace());
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  threads.clear();
  ASSERT_TRUE(volume_->sync());
}

// Against a model, with everything that changes maps.
class RandomCopyTest : public CopyTest {
 protected:
  static constexpr std::size_t kFiles = 5;
  static constexpr std::uint64_t kMostBlocks = 40;

  std::uint64_t number(std::uint64_t below) { return random_() % below; }
  std::uint64_t place() {
    const std::uint64_t at = number(kMostBlocks) * kB;
    return number(3) == 0 ? at + number(kB) : at;
  }
  InodeNo file(std::size_t i) {
    const std::string name = "f" + std::to_string(i);
    const auto found = volume_->lookup(kRootInode, name);
    const InodeNo inode = found ? found->inode : create(name);
    held_.push_back(inode);
    return inode;
  }
  void let_go() {
    for (const InodeNo inode : held_) volume_->forget(inode, 1);
    held_.clear();
  }

  void copy_something() {
    const std::size_t i = number(kFiles), j = number(kFiles);
    const std::uint64_t from = place(), length = 1 + number(12 * kB);
    const std::uint64_t to = number(2) ? place() : number(kMostBlocks) * kB + from % kB;
    const auto copied = volume_->copy_range(file(i), from, file(j), to, length, false);
    std::string& source = model_[i];
    if (from >= source.size()) {
      EXPECT_EQ(copied.value_or(1), 0u);
      return;
    }
    const std::uint64_t there = std::min<std::uint64_t>(length, source.size() - from);
    const bool overlaps = i == j && from < to + there && to < from + there;
    if (overlaps) {
      EXPECT_EQ(copied.error(), Errc::kInvalid);
      return;
    }
    ASSERT_TRUE(copied) << describe(copied.error());
    ASSERT_EQ(*copied, there);
    const std::string bytes = source.substr(from, there);
    std::string& target = model_[j];
    target.resize(std::max<std::size_t>(target.size(), to + there));
    target.replace(to, there, bytes);
  }
  void write_something() {
    const std::size_t i = number(kFiles);
    const std::uint64_t at = place();
    const std::string text = text_of(1 + number(6 * kB), static_cast<unsigned>(random_()));
    write(file(i), at, text);
    model_[i].resize(std::max<std::size_t>(model_[i].size(), at + text.size()));
    model_[i].replace(at, text.size(), text);
  }
  void cut_something() {
    const std::size_t i = number(kFiles);
    AttributeChange change;
    change.size = place();
    ASSERT_TRUE(volume_->set_attributes(file(i), change));
    model_[i].resize(*change.size);
  }
  void punch_something() {
    const std::size_t i = number(kFiles);
    const std::uint64_t at = place(), length = 1 + number(9 * kB);
    ASSERT_TRUE(volume_->punch(file(i), at, length, {}));
    for (std::uint64_t k = at; k < std::min<std::uint64_t>(at + length, model_[i].size()); ++k) {
      model_[i][k] = '\0';
    }
  }
  void remove_something() {
    const std::size_t i = number(kFiles);
    file(i);
    ASSERT_TRUE(volume_->unlink(kRootInode, "f" + std::to_string(i)));
    model_[i].clear();
  }
  void compare() {
    for (std::size_t i = 0; i < kFiles; ++i) ASSERT_EQ(read(file(i)), model_[i]) << i;
  }

  std::mt19937_64 random_{test_seed()};
  std::array<std::string, kFiles> model_;
  std::vector<InodeNo> held_;
};

TEST_F(RandomCopyTest, AllFilesAreAsTheModelSays) {
  SCOPED_TRACE(seed_trace());
  for (int step = 0; step < 1500; ++step) {
    SCOPED_TRACE(step);
    const std::uint64_t what = number(100);
    if (what < 45) {
      copy_something();
    } else if (what < 70) {
      write_something();
    } else if (what < 75) {
      cut_something();
    } else if (what < 82) {
      punch_something();
    } else if (what < 85) {
      remove_something();
    } else if (what < 92) {
      ASSERT_TRUE(volume_->sync());
    } else if (what < 95) {
      volume_->tick();
      ASSERT_TRUE(volume_->collect_garbage());
    } else if (what < 97) {
      compare();
    } else {
      let_go();
      ASSERT_TRUE(volume_->sync());
      what == 97 ? lose_power() : remount();
    }
    let_go();
    if (HasFatalFailure()) return;
  }
  compare();
  let_go();
}

}  // namespace
}  // namespace lazyfs::fs
