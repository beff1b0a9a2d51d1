#include "data/write_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "test/support/seed.h"

namespace lazyfs::data {
namespace {

using Bytes = std::vector<std::byte>;
using Blocks = std::vector<std::uint64_t>;

constexpr std::size_t kBlock = kBlockBytes;

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

Bytes filled(std::size_t length, unsigned char with) { return Bytes(length, std::byte{with}); }

class WriteBufferTest : public ::testing::Test {
 protected:
  void write(std::uint64_t offset, std::size_t length, unsigned char with) {
    buffer_.write(offset, filled(length, with));
  }
  // The byte at `offset` as it is buffered.
  unsigned char at(std::uint64_t offset) const {
    const auto contents = buffer_.contents(offset / kBlock);
    EXPECT_FALSE(contents.empty());
    return std::to_integer<unsigned char>(contents[offset % kBlock]);
  }
  static Blocks blocks_of(const std::vector<DirtyRun>& runs) {
    Blocks blocks;
    for (const DirtyRun& run : runs) {
      for (std::size_t i = 0; i < run.pages.size(); ++i) blocks.push_back(run.first_block + i);
    }
    return blocks;
  }

  PagePool pool_;
  WriteBuffer buffer_{pool_};
};

// ---- What a write needs -------------------------------------------------------------------------

TEST_F(WriteBufferTest, AWriteOfWholeBlocksNeedsNothingOld) {
  EXPECT_EQ(buffer_.needs_old(0, kBlock), Blocks{});
  EXPECT_EQ(buffer_.needs_old(3 * kBlock, 5 * kBlock), Blocks{});
  EXPECT_EQ(buffer_.needs_old(7, 0), Blocks{});
}

TEST_F(WriteBufferTest, AWriteNeedsTheBlocksThatItCoversInPart) {
  EXPECT_EQ(buffer_.needs_old(1, kBlock - 1), Blocks{0});
  EXPECT_EQ(buffer_.needs_old(0, kBlock - 1), Blocks{0});
  EXPECT_EQ(buffer_.needs_old(0, kBlock + 1), Blocks{1});
  EXPECT_EQ(buffer_.needs_old(1, kBlock), (Blocks{0, 1}));
  EXPECT_EQ(buffer_.needs_old(10, 5), Blocks{0});
  EXPECT_EQ(buffer_.needs_old(2 * kBlock + 1, 4 * kBlock), (Blocks{2, 6}));
}

TEST_F(WriteBufferTest, AWriteNeedsNoBlockThatIsBufferedAlready) {
  write(0, kBlock, 1);
  EXPECT_EQ(buffer_.needs_old(10, 5), Blocks{});
  EXPECT_EQ(buffer_.needs_old(10, kBlock), Blocks{1});
  buffer_.begin_writing(1);
  EXPECT_EQ(buffer_.needs_old(10, 5), Blocks{});
}

TEST_F(WriteBufferTest, TheLastBlocksOfTheLargestFileCanBeAskedFor) {
  const std::uint64_t last = (std::uint64_t{1} << 63) / kBlock - 2;
  EXPECT_EQ(buffer_.needs_old(last * kBlock + 1, kBlock - 1), Blocks{last});
  EXPECT_EQ(buffer_.new_pages(last * kBlock, kBlock), 1u);
}

TEST_F(WriteBufferTest, CountsThePagesThatAWriteWillTake) {
  EXPECT_EQ(buffer_.new_pages(0, 0), 0u);
  EXPECT_EQ(buffer_.new_pages(kBlock - 1, 2), 2u);
  write(kBlock, kBlock, 1);
  EXPECT_EQ(buffer_.new_pages(0, 3 * kBlock), 2u);
  buffer_.begin_writing(1);
  EXPECT_EQ(buffer_.new_pages(0, 3 * kBlock), 3u);  // the page that is being written stays
}

// ---- Writing and reading ------------------------------------------------------------------------

TEST_F(WriteBufferTest, KeepsTheRestOfABlockThatIsWrittenInPart) {
  buffer_.provide(0, filled(kBlock, 7));
  write(10, 5, 9);
  EXPECT_EQ(at(9), 7);
  EXPECT_EQ(at(10), 9);
  EXPECT_EQ(at(14), 9);
  EXPECT_EQ(at(15), 7);
  EXPECT_EQ(at(kBlock - 1), 7);
}

TEST_F(WriteBufferTest, KnowsWhatItHasNot) {
  write(kBlock, kBlock, 1);
  EXPECT_FALSE(buffer_.has(0));
  EXPECT_TRUE(buffer_.contents(0).empty());
  EXPECT_TRUE(buffer_.has(1));
  EXPECT_FALSE(buffer_.has(2));
}

TEST_F(WriteBufferTest, AWriteDuringWritingBackLeavesThePageOnItsWayAlone) {
  write(0, kBlock, 1);
  const auto runs = buffer_.begin_writing(1);
  write(100, 1, 2);  // in part: the rest is copied from the page on its way
  EXPECT_EQ(at(99), 1);
  EXPECT_EQ(at(100), 2);
  const std::span<const std::byte> on_its_way = runs.at(0).pages.at(0);
  EXPECT_TRUE(same(on_its_way, filled(kBlock, 1)));
  buffer_.finish_writing();
  EXPECT_EQ(at(100), 2);
  EXPECT_EQ(buffer_.dirty_blocks(), 1u);
}

// ---- Writing back -------------------------------------------------------------------------------

TEST_F(WriteBufferTest, GivesTheLowestBlocksFirstAsRuns) {
  write(8 * kBlock, kBlock, 8);
  write(2 * kBlock, 2 * kBlock, 2);
  const auto runs = buffer_.begin_writing(10);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].first_block, 2u);
  EXPECT_EQ(runs[0].pages.size(), 2u);
  EXPECT_EQ(runs[1].first_block, 8u);
  EXPECT_EQ(runs[1].pages.size(), 1u);
  EXPECT_TRUE(buffer_.writing());
  EXPECT_FALSE(buffer_.first_dirty().has_value());
}

TEST_F(WriteBufferTest, GivesNoMoreBlocksThanAskedFor) {
  write(0, 5 * kBlock, 1);
  EXPECT_EQ(blocks_of(buffer_.begin_writing(2)), (Blocks{0, 1}));
  EXPECT_EQ(buffer_.first_dirty(), 2u);
  EXPECT_EQ(buffer_.dirty_blocks(), 5u);  // what is being written counts
  buffer_.finish_writing();
  EXPECT_EQ(buffer_.dirty_blocks(), 3u);
  EXPECT_EQ(blocks_of(buffer_.begin_writing(5)), (Blocks{2, 3, 4}));
}

TEST_F(WriteBufferTest, GivesNothingWhenNothingIsDirty) {
  EXPECT_TRUE(buffer_.begin_writing(10).empty());
  EXPECT_TRUE(buffer_.clean());
}

TEST_F(WriteBufferTest, ForgetsWhatWasWrittenAndGivesItsPagesBack) {
  write(0, 3 * kBlock, 1);
  buffer_.begin_writing(10);
  buffer_.finish_writing();
  EXPECT_TRUE(buffer_.clean());
  EXPECT_FALSE(buffer_.writing());
  EXPECT_EQ(pool_.used(), 0u);
}

TEST_F(WriteBufferTest, AnAbortedWritingMakesBlocksDirtyAgain) {
  write(0, 3 * kBlock, 1);
  buffer_.begin_writing(10);
  write(kBlock, kBlock, 2);
  buffer_.abort_writing();
  EXPECT_EQ(at(0), 1);
  EXPECT_EQ(at(kBlock), 2);  // the newer one wins
  EXPECT_EQ(at(2 * kBlock), 1);
  EXPECT_EQ(buffer_.dirty_blocks(), 3u);
  EXPECT_EQ(pool_.used(), 3u);
}

// ---- Cutting ------------------------------------------------------------------------------------

TEST_F(WriteBufferTest, DropsBlocksFromOneOn) {
  write(0, 5 * kBlock, 1);
  EXPECT_EQ(buffer_.drop_from(2), 3u);
  EXPECT_TRUE(buffer_.has_dirty(1));
  EXPECT_FALSE(buffer_.has_dirty(2));
  EXPECT_EQ(buffer_.drop_from(2), 0u);
  EXPECT_EQ(buffer_.drop_from(0), 2u);
  EXPECT_EQ(pool_.used(), 0u);
}

TEST_F(WriteBufferTest, ZeroesTheTailOfABlock) {
  write(0, kBlock, 1);
  buffer_.zero_tail(0, 100);
  EXPECT_EQ(at(99), 1);
  EXPECT_EQ(at(100), 0);
  EXPECT_EQ(at(kBlock - 1), 0);
}

TEST_F(WriteBufferTest, RunsAreOfWhatIsDirtyOrBeingWritten) {
  using Runs = std::vector<WriteBuffer::Run>;
  EXPECT_EQ(buffer_.runs(9), Runs{});
  write(2 * kBlock, 3 * kBlock, 'a');
  write(9 * kBlock, kBlock, 'a');
  EXPECT_EQ(buffer_.runs(9), (Runs{{2, 3}, {9, 1}}));
  buffer_.begin_writing(4);
  write(4 * kBlock, 2 * kBlock, 'b');
  write(0, kBlock, 'b');
  EXPECT_EQ(buffer_.runs(9), (Runs{{0, 1}, {2, 4}, {9, 1}}));
  EXPECT_EQ(buffer_.runs(3), (Runs{{0, 1}, {2, 4}, {9, 1}}));
  EXPECT_EQ(buffer_.runs(2), Runs{});
  buffer_.finish_writing();
}

TEST_F(WriteBufferTest, FindsTheFirstBlockThatIsDirtyOrBeingWritten) {
  EXPECT_EQ(buffer_.first_from(0), std::nullopt);
  write(2 * kBlock, kBlock, 'a');
  buffer_.begin_writing(1);
  write(5 * kBlock, kBlock, 'b');
  EXPECT_EQ(buffer_.first_from(0), 2u);
  EXPECT_EQ(buffer_.first_from(3), 5u);
  EXPECT_EQ(buffer_.first_from(6), std::nullopt);
  write(kBlock, kBlock, 'c');
  EXPECT_EQ(buffer_.first_from(0), 1u);
  buffer_.finish_writing();
}

TEST_F(WriteBufferTest, GivesAllPagesBackAtItsEnd) {
  {
    WriteBuffer other(pool_);
    other.write(0, filled(4 * kBlock, 1));
    other.begin_writing(2);
    other.write(0, filled(kBlock, 2));
    EXPECT_EQ(pool_.used(), 5u);
  }
  EXPECT_EQ(pool_.used(), 0u);
}

// ---- Against a plain array of bytes -------------------------------------------------------------

// A file as its user sees it (truth_), and as the disk has it: what was written back so far. What
// is buffered over what is on the disk must always give the truth.
class WriteBufferModel {
 public:
  explicit WriteBufferModel(std::uint64_t seed) : random_(seed) {}

  void step() {
    switch (random_() % 10) {
      case 0: begin(); break;
      case 1: finish(); break;
      case 2: abort(); break;
      case 3: truncate(); break;
      default: write(); break;
    }
  }

  void check() {
    for (std::uint64_t block = 0; block < kFileBlocks; ++block) {
      const auto buffered = buffer_.contents(block);
      const auto seen = buffered.empty() ? part(disk_, block) : buffered;
      ASSERT_TRUE(same(seen, part(truth_, block))) << "block " << block;
    }
    for (const auto& [block, bytes] : frozen_) {
      ASSERT_TRUE(same(bytes.now, bytes.then)) << "changed on its way: " << block;
    }
    std::size_t dirty_and_frozen = 0, dirty = 0;
    for (std::uint64_t block = 0; block < kFileBlocks; ++block) {
      dirty += buffer_.has_dirty(block);
      dirty_and_frozen += buffer_.has_dirty(block) && is_frozen(block);
    }
    ASSERT_EQ(pool_.used(), dirty + frozen_.size());
    ASSERT_EQ(buffer_.dirty_blocks(), pool_.used());
    ASSERT_EQ(buffer_.clean(), pool_.used() == 0);
    saw_overwritten_ |= dirty_and_frozen > 0;
  }
  bool saw_overwritten() const { return saw_overwritten_; }

 private:
  static constexpr std::uint64_t kFileBlocks = 80;
  struct Frozen {
    std::span<const std::byte> now;
    Bytes then;
  };

  static std::span<const std::byte> part(const Bytes& file, std::uint64_t block) {
    return std::span(file).subspan(block * kBlock, kBlock);
  }
  bool is_frozen(std::uint64_t block) const {
    return std::ranges::any_of(frozen_, [&](const auto& f) { return f.first == block; });
  }

  void write() {
    const std::uint64_t offset = random_() % (kFileBlocks * kBlock);
    std::size_t length = 1 + random_() % (random_() % 3 == 0 ? 20 * kBlock : 2 * kBlock);
    length = std::min<std::size_t>(length, kFileBlocks * kBlock - offset);
    Bytes bytes(length);
    const auto mark = static_cast<unsigned char>(random_());
    for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(mark + i / 512 + i);
    const std::size_t expected = pool_.used() + buffer_.new_pages(offset, length);
    for (const std::uint64_t block : buffer_.needs_old(offset, length)) {
      buffer_.provide(block, part(disk_, block));
    }
    buffer_.write(offset, bytes);
    ASSERT_EQ(pool_.used(), expected);
    std::ranges::copy(bytes, truth_.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  void begin() {
    if (buffer_.writing()) return;
    const std::size_t most = 1 + random_() % 30;
    std::optional<std::uint64_t> last;
    for (const DirtyRun& run : buffer_.begin_writing(most)) {
      ASSERT_TRUE(!last || run.first_block > *last + 1);  // else it would be the same run
      for (std::size_t i = 0; i < run.pages.size(); ++i) {
        const std::span<const std::byte> page = run.pages[i];
        frozen_.push_back({run.first_block + i, {page, Bytes(page.begin(), page.end())}});
      }
      last = run.first_block + run.pages.size() - 1;
    }
    ASSERT_LE(frozen_.size(), most);
  }

  void finish() {
    for (const auto& [block, bytes] : frozen_) {
      std::ranges::copy(bytes.then, disk_.begin() + static_cast<std::ptrdiff_t>(block * kBlock));
    }
    frozen_.clear();
    buffer_.finish_writing();
  }

  void abort() {
    frozen_.clear();
    buffer_.abort_writing();
  }

  // As the filesystem does it: nothing is being written, the cut block is loaded first.
  void truncate() {
    if (buffer_.writing()) return;
    const std::uint64_t size = random_() % (kFileBlocks * kBlock);
    const std::uint64_t tail_block = size / kBlock, end_block = blocks_for(size);
    buffer_.drop_from(end_block);
    if (size % kBlock != 0) {
      if (!buffer_.has_dirty(tail_block)) buffer_.provide(tail_block, part(disk_, tail_block));
      buffer_.zero_tail(tail_block, size % kBlock);
    }
    std::fill(disk_.begin() + static_cast<std::ptrdiff_t>(end_block * kBlock), disk_.end(),
              std::byte{0});
    std::fill(truth_.begin() + static_cast<std::ptrdiff_t>(size), truth_.end(), std::byte{0});
  }

  std::mt19937_64 random_;
  PagePool pool_;
  WriteBuffer buffer_{pool_};
  Bytes truth_ = filled(kFileBlocks * kBlock, 0);
  Bytes disk_ = truth_;
  std::vector<std::pair<std::uint64_t, Frozen>> frozen_;
  bool saw_overwritten_ = false;
};

TEST(WriteBufferRandomTest, ShowsWhatAPlainArrayShows) {
  SCOPED_TRACE(seed_trace());
  WriteBufferModel model(test_seed());
  for (int i = 0; i < 3000; ++i) {
    model.step();
    model.check();
    if (::testing::Test::HasFatalFailure()) FAIL() << "after step " << i;
  }
  EXPECT_TRUE(model.saw_overwritten());  // the hard case was met
}

}  // namespace
}  // namespace lazyfs::data
