#include "zoned/queue.h"

#include <gtest/gtest.h>

#include <fstream>

#include "test/support/test_folder.h"

namespace lazyfs::zoned {
namespace {

TEST(QueueTest, KernelsBefore610NeedMqDeadline) {
  EXPECT_TRUE(scheduler_need("[none] mq-deadline", "6.1.0-13-amd64").must_change);
  EXPECT_TRUE(scheduler_need("[none] mq-deadline", "6.1.0-13-amd64").is_offered);
  EXPECT_TRUE(scheduler_need("none mq-deadline [bfq]", "6.9.12").must_change);
  EXPECT_FALSE(scheduler_need("none [mq-deadline]", "6.1.0-13-amd64").must_change);
  EXPECT_TRUE(scheduler_need("[none]", "5.10.0").must_change);
  EXPECT_FALSE(scheduler_need("[none]", "5.10.0").is_offered);
}

TEST(QueueTest, LaterKernelsTakeAnyScheduler) {
  EXPECT_FALSE(scheduler_need("[none] mq-deadline", "6.10.0").must_change);
  EXPECT_FALSE(scheduler_need("[none] mq-deadline", "6.18.44").must_change);
  EXPECT_FALSE(scheduler_need("[none]", "7.0").must_change);
}

TEST(QueueTest, AQueueWithoutSchedulersNeedsNone) {
  EXPECT_FALSE(scheduler_need("", "6.1.0").must_change);
}

TEST(QueueTest, ReadsTheLimits) {
  const TestFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text << "\n";
  };
  write("max_open_zones", "128");
  write("max_active_zones", "14");
  write("max_sectors_kb", "1280");
  write("max_segments", "128");
  write("logical_block_size", "512");
  write("zone_write_granularity", "4096");
  const DiskLimits limits = read_limits(folder.path().string());
  EXPECT_EQ(limits.max_open_zones, 128u);
  EXPECT_EQ(limits.max_active_zones, 14u);
  EXPECT_EQ(limits.max_write_bytes, 128u * 4096) << "each page may be a segment";
  EXPECT_EQ(limits.write_bytes, 4096u);
}

TEST(QueueTest, TheLowerLimitOfAWriteCounts) {
  const TestFolder folder;
  std::ofstream(folder / "max_sectors_kb") << "256\n";
  EXPECT_EQ(read_limits(folder.path().string()).max_write_bytes, 256u * 1024);
  std::ofstream(folder / "max_segments") << "128\n";
  EXPECT_EQ(read_limits(folder.path().string()).max_write_bytes, 256u * 1024);
}

// Kernels before 5.12 have no zone_write_granularity.
TEST(QueueTest, WritesAreWholeSectors) {
  const TestFolder folder;
  std::ofstream(folder / "logical_block_size") << "4096\n";
  EXPECT_EQ(read_limits(folder.path().string()).write_bytes, 4096u);
}

TEST(QueueTest, MissingFilesMeanNoLimit) {
  const TestFolder folder;
  const DiskLimits limits = read_limits(folder.path().string());
  EXPECT_EQ(limits.max_open_zones, 0u);
  EXPECT_EQ(limits.max_write_bytes, 0u);
  EXPECT_EQ(limits.write_bytes, 512u);
}

}  // namespace
}  // namespace lazyfs::zoned
