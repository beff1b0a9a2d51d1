#include "fuse/requests/hole_seek.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace lazyfs::fuse {
namespace {

// A file of blocks of ten bytes. Blocks that the kernel holds become data when they are written
// out.
struct FakeFile {
  std::uint64_t size = 0;
  std::set<std::uint64_t> data, held;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> written_out;

  Result<std::uint64_t> find(std::uint64_t offset, bool wants_data) const {
    if (offset >= size) return fail(Errc::kNoSuchRange);
    for (std::uint64_t at = offset; at < size; at = (at / 10 + 1) * 10) {
      if (data.contains(at / 10) == wants_data) return at;
    }
    if (wants_data) return fail(Errc::kNoSuchRange);
    return size;
  }
  SeekableFile seekable() {
    return {.find_data = [this](std::uint64_t offset) { return find(offset, true); },
            .find_hole = [this](std::uint64_t offset) { return find(offset, false); },
            .write_out =
                [this](std::uint64_t from, std::uint64_t to) {
                  written_out.emplace_back(from, to);
                  std::erase_if(held, [&](std::uint64_t block) {
                    if (block < from / 10 || (to != kEndOfFile && block * 10 >= to)) return false;
                    data.insert(block);
                    size = std::max(size, block * 10 + 10);
                    return true;
                  });
                }};
  }
};

TEST(HoleSeekTest, DataIsFoundWithoutAWriteOut) {
  FakeFile file{.size = 100, .data = {2, 3}, .held = {5}, .written_out = {}};
  EXPECT_EQ(seek_data(file.seekable(), 25), 25u);
  EXPECT_TRUE(file.written_out.empty());
}

TEST(HoleSeekTest, DataThatTheKernelHoldsIsFound) {
  FakeFile file{.size = 100, .data = {8}, .held = {5, 9}, .written_out = {}};
  EXPECT_EQ(seek_data(file.seekable(), 12), 50u);
  EXPECT_EQ(file.written_out, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{12, 80}}));
  EXPECT_EQ(seek_hole(file.seekable(), 80), 100u);
}

TEST(HoleSeekTest, DataPastTheEndThatTheVolumeKnowsIsFound) {
  FakeFile file{.size = 0, .data = {}, .held = {0, 1, 4}, .written_out = {}};
  EXPECT_EQ(seek_data(file.seekable(), 5), 5u);
  EXPECT_EQ(seek_hole(file.seekable(), 5), 20u);
  EXPECT_EQ(seek_data(file.seekable(), 20), 40u);
  EXPECT_EQ(seek_hole(file.seekable(), 40), 50u);
  const auto past_the_end = seek_data(file.seekable(), 50);
  ASSERT_FALSE(past_the_end);
  EXPECT_EQ(past_the_end.error(), Errc::kNoSuchRange);
}

TEST(HoleSeekTest, AHoleIsOneThatTheKernelHoldsNothingOf) {
  FakeFile file{.size = 100, .data = {0, 2, 4, 6}, .held = {1, 3}, .written_out = {}};
  EXPECT_EQ(seek_hole(file.seekable(), 0), 50u);
  EXPECT_EQ(file.written_out, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{
                                  {10, 20}, {30, 40}, {50, 60}}));
}

TEST(HoleSeekTest, AFailureIsTheAnswer) {
  SeekableFile file = FakeFile{}.seekable();
  file.find_data = file.find_hole = [](std::uint64_t) -> Result<std::uint64_t> {
    return fail(Errc::kDeviceRead);
  };
  EXPECT_EQ(seek_data(file, 0).error(), Errc::kDeviceRead);
  EXPECT_EQ(seek_hole(file, 0).error(), Errc::kDeviceRead);
}

}  // namespace
}  // namespace lazyfs::fuse
