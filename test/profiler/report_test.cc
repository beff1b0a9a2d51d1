#include "profiler/report.h"

#include <gtest/gtest.h>

namespace lazyfs::profiler {
namespace {

Section example() {
  Counts counts;
  counts.count({Call::kMknod, Call::kGetattr});
  counts.count({Call::kWrite});
  counts.count({Call::kWrite});
  counts.count_write(4096);
  counts.count_write(131072);
  counts.count({Call::kRead});
  counts.count_read(0);
  return {.number = 3,
          .reason = "SIGUSR1",
          .end = {1'000'000'000, 0},
          .seconds = 12.5,
          .cpu = {0.25, 1.5},
          .totals = counts.take()};
}

TEST(ReportTest, TextListsCallsByFrequencyThenByName) {
  EXPECT_EQ(to_text(example()),
            "Section 3, 2001-09-09T01:46:40Z, SIGUSR1\n"
            "Total number of calls: 5\n"
            "  write                       2  40.00 %\n"
            "  getattr                     1  20.00 %\n"
            "  mknod                       1  20.00 %\n"
            "  read                        1  20.00 %\n"
            "Requests of the kernel: 4\n"
            "Bytes of reads: 0\n"
            "  reads    up to 0                    1\n"
            "Bytes of writes: 135168\n"
            "  writes   up to 4 KiB                1\n"
            "  writes   up to 128 KiB              1\n"
            "Seconds: 12.500\n"
            "CPU seconds of the daemon: user 0.250, system 1.500\n\n");
}

TEST(ReportTest, TextSaysWhenTheMountIsClassic) {
  Section section = example();
  section.is_classic = true;
  EXPECT_TRUE(to_text(section).starts_with(
      "Section 3, 2001-09-09T01:46:40Z, SIGUSR1, classic\n"));
}

TEST(ReportTest, ASectionWithoutCallsHasNoShares) {
  EXPECT_EQ(to_text({}),
            "Section 1, 1970-01-01T00:00:00Z, \n"
            "Total number of calls: 0\n"
            "Requests of the kernel: 0\n"
            "Bytes of reads: 0\n"
            "Bytes of writes: 0\n"
            "Seconds: 0.000\n"
            "CPU seconds of the daemon: user 0.000, system 0.000\n\n");
}

TEST(ReportTest, JsonHasTheSameFigures) {
  const Json json = to_json(example());
  EXPECT_EQ(json["section"].number(), 3u);
  EXPECT_EQ(json["time"].text(), "2001-09-09T01:46:40Z");
  EXPECT_EQ(json["total_calls"].number(), 5u);
  EXPECT_EQ(json["calls"].members().front().first, "write");
  EXPECT_EQ(json["calls"]["write"].number(), 2u);
  EXPECT_FALSE(json["calls"].contains("open"));
  EXPECT_EQ(json["requests"].number(), 4u);
  EXPECT_EQ(json["writes"]["bytes"].number(), 135168u);
  EXPECT_EQ(json["writes"]["sizes"].items()[1]["up_to_bytes"].number(), 131072u);
  EXPECT_EQ(json["cpu_seconds"]["system"].real(), 1.5);
}

}  // namespace
}  // namespace lazyfs::profiler
