#include "sim/conventional.h"

#include <gtest/gtest.h>

#include <memory>

#include "sim/models.h"

namespace lazyfs::sim {
namespace {

// The Cheetah 9LP, one request at a time, each a second after the end of the one before.
class CheetahTest : public testing::Test {
 protected:
  double read(std::uint64_t sector, std::uint32_t sectors) {
    return serve({.sector = sector, .sectors = sectors, .op = Op::kRead});
  }
  double write(std::uint64_t sector, std::uint32_t sectors) {
    return serve({.sector = sector, .sectors = sectors, .op = Op::kWrite});
  }
  double serve(const Request& request) {
    now_ms_ += pause_ms_;
    const double start = now_ms_;
    now_ms_ = disk_->serve(now_ms_, request);
    return now_ms_ - start;
  }
  const Mechanics& mechanics() const {
    return dynamic_cast<const ConventionalDisk&>(*disk_).mechanics();
  }

  ParameterSheet sheet_;
  std::unique_ptr<Disk> disk_ = find_model("cheetah9lp")->make(sheet_);
  double pause_ms_ = 1000, now_ms_ = 0;
};

// ---- Closed formulas ----------------------------------------------------------------------------

TEST_F(CheetahTest, TurnsOnceIn5973Microseconds) {
  EXPECT_NEAR(mechanics().parameters().revolution_ms, 5.973, 0.0005);
}

TEST_F(CheetahTest, ReadsTheMediaAt2177MegabytesOutsideAnd1431Inside) {
  EXPECT_NEAR(mechanics().media_rate(0) / 1e6, 21.77, 0.2177);
  EXPECT_NEAR(mechanics().media_rate(17'783'239) / 1e6, 14.31, 0.1431);
}

TEST_F(CheetahTest, SeeksFor547MicrosecondsOnAverage) {
  const SeekCurve& seeks = mechanics().parameters().seeks;
  EXPECT_NEAR(seeks.mean_ms(6962), 5.47, 0.0547);
  EXPECT_DOUBLE_EQ(seeks.time_ms(1), 0.831);
  EXPECT_DOUBLE_EQ(seeks.time_ms(6961), 10.627);
}

TEST_F(CheetahTest, HasTheDrivesCapacity) { EXPECT_EQ(disk_->sectors(), 17'783'240u); }

TEST_F(CheetahTest, HitsTakeTheOverheadAndTheBus) {
  read(1'000'000, 4);
  EXPECT_NEAR(read(1'000'004, 4), 0.066 + 4 * 0.105, 1e-6);  // measured: 0.487
  EXPECT_NEAR(read(1'000'008, 8), 0.906, 1e-6);
}

TEST_F(CheetahTest, AWriteAfterAReadTakes1168Microseconds) {
  read(1'000'000, 4);
  EXPECT_NEAR(write(5'000'000, 4), 0.748 + 4 * 0.105, 1e-6);  // measured: 1.158
}

// ---- The read buffer ----------------------------------------------------------------------------

TEST_F(CheetahTest, AHitThatSkipsSectorsTakesLonger) {
  read(1'000'000, 4);
  EXPECT_NEAR(read(1'000'100, 4), 0.486 + 0.181, 1e-6);
}

TEST_F(CheetahTest, ReadAheadEndsAfter561Sectors) {
  read(1'000'000, 4);
  EXPECT_LT(read(1'000'004 + 557, 4), 1);
  read(2'000'000, 4);
  EXPECT_GT(read(2'000'004 + 562, 4), 1);
}

TEST_F(CheetahTest, AHitWaitsForTheReadAheadUnderWay) {
  pause_ms_ = 0;
  read(1'000'000, 4);
  // 400 sectors pass in more than a revolution and a half.
  EXPECT_GT(read(1'000'400, 4), 8);
}

TEST_F(CheetahTest, ReadingTheSameSectorsAgainTakesARevolution) {
  read(1'000'000, 4);
  const double again = read(1'000'000, 4);
  EXPECT_GT(again, 0.7);
  EXPECT_LT(again, 7.5);
}

TEST_F(CheetahTest, AWriteEndsReadAhead) {
  read(1'000'000, 4);
  write(9'000'000, 4);
  EXPECT_GT(read(1'000'004, 4), 1);
}

// ---- The write-back cache -----------------------------------------------------------------------

TEST_F(CheetahTest, WritesAreReportedBeforeTheyAreDestaged) {
  pause_ms_ = 0;
  EXPECT_LT(write(1'000'000, 4), 1.2);
  EXPECT_LT(write(17'000'000, 4), 1.4);
  EXPECT_GT(serve({.op = Op::kFlush}), 5);
  EXPECT_DOUBLE_EQ(serve({.op = Op::kFlush}), 0);
}

TEST_F(CheetahTest, AReadFindsDataThatWaitForDestaging) {
  pause_ms_ = 0;
  for (std::uint64_t i = 0; i < 20; ++i) write(i * 800'000, 4);
  EXPECT_NEAR(read(19 * 800'000, 4), 0.273 + 4 * 0.105, 1e-6);
}

TEST_F(CheetahTest, AFullCacheWaitsForThePlatters) {
  pause_ms_ = 0;
  double longest = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    longest = std::max(longest, write((i * 7'919 % 200) * 80'000, 32));
  }
  EXPECT_GT(longest, 5);
}

TEST_F(CheetahTest, WritesInSequenceWaitForARevolutionEach) {
  pause_ms_ = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) write(1'000'000 + i * 8, 8);
  serve({.op = Op::kFlush});
  EXPECT_GT(now_ms_, 5000);
}

TEST(Wd5000ysTest, JoinsWritesInSequence) {
  ParameterSheet sheet;
  const auto disk = find_model("WD5000YS")->make(sheet);
  double now_ms = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    now_ms = disk->serve(now_ms, {.sector = i * 8, .sectors = 8, .op = Op::kWrite});
  }
  EXPECT_LT(disk->settle(now_ms), 2000);  // 83 s if each of them waited for a revolution
}

TEST(Wd5000ysTest, ReadsInSequenceAtTheRateOfTheMedia) {
  ParameterSheet sheet;
  const auto disk = find_model("WD5000YS")->make(sheet);
  double now_ms = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    now_ms = disk->serve(now_ms, {.sector = i * 2048, .sectors = 2048, .op = Op::kRead});
  }
  EXPECT_NEAR(1000 * 1.048576 / (now_ms / 1000), 65, 4);  // MB/s
}

}  // namespace
}  // namespace lazyfs::sim
