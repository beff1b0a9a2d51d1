#include "sim/replay.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "sim/load.h"

namespace lazyfs::sim {
namespace {

// Takes 10 ms for each request, and remembers where requests began.
class SteadyDisk final : public Disk {
 public:
  struct Log {
    std::vector<std::pair<double, std::uint64_t>> started;  // time, sector
  };
  explicit SteadyDisk(Log& log) : log_(log) {}

  double serve(double now_ms, const Request& request) override {
    log_.started.emplace_back(now_ms, request.sector);
    arm_ = cylinder_of(request.sector);
    return now_ms + 10;
  }
  double settle(double now_ms) override { return now_ms + 1000; }
  std::uint64_t sectors() const override { return 1'000'000; }
  std::uint32_t cylinder() const override { return arm_; }
  std::uint32_t cylinder_of(std::uint64_t sector) const override {
    return static_cast<std::uint32_t>(sector / 100);
  }
  DiskCounters counters() const override { return {}; }

 private:
  Log& log_;
  std::uint32_t arm_ = 0;
};

class ReplayTest : public testing::Test {
 protected:
  ReplayResult run(std::vector<Request> requests, const ReplayOptions& options) {
    logs_.assign(shape_.disks, {});
    std::vector<std::unique_ptr<Disk>> disks;
    for (auto& log : logs_) disks.push_back(std::make_unique<SteadyDisk>(log));
    shape_.disk_sectors = 1'000'000;
    const VolumeMap map(shape_);
    std::size_t next = 0;
    return Replay(std::move(disks), map, options).run([&]() -> std::optional<Request> {
      if (next == requests.size()) return std::nullopt;
      return requests[next++];
    });
  }
  std::vector<std::uint64_t> order(std::size_t disk = 0) const {
    std::vector<std::uint64_t> sectors;
    for (const auto& [time, sector] : logs_[disk].started) sectors.push_back(sector);
    return sectors;
  }
  static Request read(std::uint64_t sector, double time_us = 0) {
    return {.time_us = time_us, .sector = sector, .sectors = 8, .op = Op::kRead};
  }

  VolumeShape shape_;
  std::vector<SteadyDisk::Log> logs_;
};

using Sectors = std::vector<std::uint64_t>;

// ---- Timing -------------------------------------------------------------------------------------

TEST_F(ReplayTest, AWindowOfOneServesOneAfterTheOther) {
  const auto result = run({read(0), read(800), read(400)}, {});
  EXPECT_DOUBLE_EQ(result.seconds, 0.030);
  EXPECT_DOUBLE_EQ(result.cleaning_seconds, 1);
  EXPECT_EQ(result.latency.count(), 3u);
  EXPECT_NEAR(result.latency.mean_ms(), 10, 0.1);
}

TEST_F(ReplayTest, AWindowKeepsSeveralDisksBusy) {
  shape_.disks = 4;
  shape_.stripe_sectors = 8;
  const auto result = run({read(0), read(8), read(16), read(24)}, {.window = 4});
  EXPECT_DOUBLE_EQ(result.seconds, 0.010);
  EXPECT_EQ(result.disk_requests, (Sectors{1, 1, 1, 1}));
}

TEST_F(ReplayTest, PacedRequestsBeginAtTheirTimes) {
  const auto result = run({read(0, 1000), read(8, 5000), read(16, 100'000)}, {.is_paced = true});
  EXPECT_DOUBLE_EQ(logs_[0].started[0].first, 1);
  EXPECT_DOUBLE_EQ(logs_[0].started[1].first, 11);  // waited for the first one
  EXPECT_DOUBLE_EQ(logs_[0].started[2].first, 100);
  EXPECT_NEAR(result.latency.max_ms(), 16, 1e-9);
}

TEST_F(ReplayTest, RecordedPausesFollowTheEndOfTheRequestBefore) {
  run({read(0, 0), read(8, 5000)}, {.is_thinking = true});
  EXPECT_DOUBLE_EQ(logs_[0].started[1].first, 15);
}

// ---- Queueing -----------------------------------------------------------------------------------

TEST_F(ReplayTest, RefusesARequestThatWouldNeverBeComplete) {
  EXPECT_DEATH(run({{.sectors = 0, .op = Op::kWrite}}, {}), "invariant violated");
}

TEST_F(ReplayTest, FcfsKeepsTheOrder) {
  run({read(0), read(90'000), read(100), read(80'000)}, {.window = 10});
  EXPECT_EQ(order(), (Sectors{0, 90'000, 100, 80'000}));
}

TEST_F(ReplayTest, SstfTakesTheNearest) {
  run({read(50'000), read(90'000), read(40'000), read(100)},
      {.window = 10, .queue = QueuePolicy::kSstf, .queue_depth = 100});
  EXPECT_EQ(order(), (Sectors{50'000, 40'000, 100, 90'000}));
}

TEST_F(ReplayTest, ClookGoesInwardAndBeginsAgainOutside) {
  run({read(50'000), read(40'000), read(90'000), read(100), read(60'000)},
      {.window = 10, .queue = QueuePolicy::kClook, .queue_depth = 100});
  EXPECT_EQ(order(), (Sectors{50'000, 60'000, 90'000, 100, 40'000}));
}

TEST_F(ReplayTest, ADriveOrdersOnlyWhatItHasTaken) {
  run({read(50'000), read(90'000), read(10), read(49'000)},
      {.window = 10, .queue = QueuePolicy::kSstf, .queue_depth = 2});
  EXPECT_EQ(order(), (Sectors{50'000, 90'000, 49'000, 10}));
}

TEST_F(ReplayTest, NothingPassesAFlush) {
  run({read(50'000), read(90'000), {.op = Op::kFlush}, read(50'100)},
      {.window = 10, .queue = QueuePolicy::kSstf, .queue_depth = 100});
  EXPECT_EQ(order(), (Sectors{50'000, 90'000, 0, 50'100}));
}

// ---- What is measured ---------------------------------------------------------------------------

TEST_F(ReplayTest, CountsByClassAndDirection) {
  Request journal{.sectors = 16, .op = Op::kWrite, .kind = RequestClass::kJournal};
  const auto result = run({read(0), journal, {.op = Op::kFlush}}, {.every = 1});
  EXPECT_EQ(result.traffic[0][0].bytes, 4096u);
  EXPECT_EQ(result.traffic[2][1].bytes, 8192u);
  EXPECT_EQ(result.flushes, 1u);
  ASSERT_EQ(result.progress.size(), 2u);
  EXPECT_EQ(result.progress[1].bytes, 4096u + 8192);
}

TEST_F(ReplayTest, TheSeriesHasTheBytesOfEachSecond) {
  const auto result = run({read(0, 0), read(0, 2'500'000)},
                          {.is_paced = true, .with_series = true});
  ASSERT_EQ(result.series.size(), 3u);
  EXPECT_EQ(result.series[0][0], 4096u);
  EXPECT_EQ(result.series[1][0], 0u);
  EXPECT_EQ(result.series[2][0], 4096u);
}

TEST_F(ReplayTest, KeepsPointsThatAreSpreadEvenly) {
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < 1000; ++i) requests.push_back(read(i * 8));
  const auto result = run(requests, {.points = 10});
  EXPECT_GE(result.points.size(), 10u);
  EXPECT_LT(result.points.size(), 20u);
  const std::uint64_t step = result.points[1].request.sector - result.points[0].request.sector;
  for (std::size_t i = 1; i < result.points.size(); ++i) {
    EXPECT_EQ(result.points[i].request.sector - result.points[i - 1].request.sector, step);
  }
}

TEST(LatenciesTest, HavePercentilesToOnePercent) {
  Latencies latencies;
  for (int i = 1; i <= 1000; ++i) latencies.add(i);
  EXPECT_NEAR(latencies.mean_ms(), 500.5, 1e-9);
  EXPECT_NEAR(latencies.percentile_ms(0.5), 500, 5);
  EXPECT_NEAR(latencies.percentile_ms(0.99), 990, 10);
  EXPECT_DOUBLE_EQ(latencies.percentile_ms(1), 1000);
  EXPECT_DOUBLE_EQ(Latencies().percentile_ms(0.5), 0);
}

// ---- Synthetic loads ----------------------------------------------------------------------------

TEST(LoadTest, ParsesEachWord) {
  const auto load = parse_load("rw=randread,bs=4k,range=32g,count=500000,sync=1,seed=7,depth=3");
  ASSERT_TRUE(load);
  EXPECT_EQ(load->op, Op::kRead);
  EXPECT_TRUE(load->is_random);
  EXPECT_EQ(load->block_bytes, 4096u);
  EXPECT_EQ(load->range_bytes, 32ull << 30);
  EXPECT_EQ(load->count, 500'000u);
  EXPECT_TRUE(load->is_synced);
  EXPECT_EQ(load->seed, 7u);
  EXPECT_EQ(load->depth, 3u);
}

TEST(LoadTest, NamesTheWordThatIsWrong) {
  EXPECT_EQ(parse_load("rw=read,count=1,bs=100").error(), "'bs=100'");
  EXPECT_EQ(parse_load("rw=trim,count=1").error(), "'rw=trim'");
  EXPECT_EQ(parse_load("count=1").error(), "rw= is missing");
  EXPECT_EQ(parse_load("rw=read").error(), "count= is missing");
  EXPECT_EQ(parse_load("rw=read,count=1,depth=0").error(), "'depth=0'");
  EXPECT_EQ(parse_load("rw=read,count=1,what").error(), "'what'");
}

TEST(LoadTest, SequencesWrapAtTheEndOfTheRange) {
  Load load({.is_random = false, .range_bytes = 8192, .count = 3, .is_synced = true}, 1000);
  std::vector<std::pair<char, std::uint64_t>> made;
  while (const auto request = load.next()) {
    made.emplace_back(static_cast<char>(request->op), request->sector);
  }
  EXPECT_EQ(made, (std::vector<std::pair<char, std::uint64_t>>{
                      {'W', 0}, {'F', 0}, {'W', 8}, {'F', 0}, {'W', 0}, {'F', 0}}));
}

}  // namespace
}  // namespace lazyfs::sim
