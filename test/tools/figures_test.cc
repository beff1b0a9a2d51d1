// What lazyfsctl stats, top and metrics make of a daemon's answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/time_histogram_json.h"
#include "tools/metrics.h"
#include "tools/progress.h"
#include "tools/stats_page.h"
#include "tools/top_command.h"
#include "tools/words.h"

namespace lazyfs {
namespace {

Json times_of(std::initializer_list<long> nanoseconds) {
  TimeHistogram times;
  for (const long ns : nanoseconds) times.add(std::chrono::nanoseconds(ns));
  return to_json(times);
}

MountFigures figures(double uptime, std::uint64_t moved, std::initializer_list<long> reads) {
  MountFigures mount{.mount_point = "/srv/\"a\\", .device = "/dev/sdb", .stats = {}, .info = {}};
  mount.info = Json::object({{"label", "archive"}, {"uuid", "u-u"}, {"options", "rw"}});
  mount.stats = Json::object({{"state", "writable"}, {"uptime_seconds", uptime}});
  mount.stats["data"] = Json::object({{"user_blocks_written", std::uint64_t{1000}},
                                      {"collector_blocks_written", moved},
                                      {"user_blocks_since_mkfs", std::uint64_t{2000}},
                                      {"collector_blocks_since_mkfs", moved},
                                      {"dirty_bytes", std::uint64_t{4096}},
                                      {"dirty_inodes", std::uint64_t{1}},
                                      {"stall_times", times_of({})}});
  mount.stats["space"] = Json::object({{"total_blocks", std::uint64_t{100}},
                                       {"live_blocks", std::uint64_t{50}},
                                       {"dead_blocks", std::uint64_t{10}}});
  mount.stats["operations"] = Json::object({{"read", std::uint64_t{reads.size()}}});
  mount.stats["operation_times"] = Json::object({{"read", times_of(reads)}});
  return mount;
}

TEST(WordsTest, NameTheFirstFiveBands) {
  EXPECT_EQ(bands_text({BandId{7}}), "1 band: 7");
  std::vector<BandId> bands;
  for (const std::uint32_t band : {3, 17, 20, 21, 22}) bands.push_back(BandId{band});
  EXPECT_EQ(bands_text(bands), "5 bands: 3, 17, 20, 21, 22");
  bands.push_back(BandId{30});
  EXPECT_EQ(bands_text(bands), "6 bands: 3, 17, 20, 21, 22, ...");
}

TEST(WordsTest, ShowNoControlCharacterToATerminal) {
  EXPECT_EQ(printable("a b\\\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "a b\\\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(printable("\x1B[2J\n\x7F"), "\\033[2J\\012\\177");
  EXPECT_EQ(printable("\xC2\x9B"), "\\302\\233");              // U+009B
  EXPECT_EQ(printable("\x9B\xFF"), "\\233\\377");              // not UTF-8
  EXPECT_EQ(printable("\xE0\x82\x9B"), "\\340\\202\\233");  // U+009B, too long
  EXPECT_EQ(printable("\xE2\x82"), "\\342\\202");              // cut off
  EXPECT_EQ(printable("\xC1\x9B"), "\\301\\233");              // a letter, too long
  EXPECT_EQ(printable("\xF0\x80\x82\x9B"), "\\360\\200\\202\\233");  // U+009B, too long
  EXPECT_EQ(printable("\xF5\x80\x80\x80"), "\\365\\200\\200\\200");  // past U+10FFFF
}

TEST(WordsTest, UnambiguousTextTellsABackslashFromAnOctalNumber) {
  EXPECT_EQ(unambiguous("a\n\xFF\xC3\xA4"), "a\\012\\377\xC3\xA4");
  EXPECT_EQ(unambiguous("a\\012"), "a\\134012");
}

TEST(WordsTest, PagesShowNoControlCharacter) {
  MountFigures mount = figures(10, 0, {1});
  mount.mount_point = "/\x1B[2J";
  mount.info["label"] = "\x1B[3J";
  const std::string page = stats_page(mount) + top_page(mount, mount, {}).front();
  EXPECT_EQ(page.find('\x1B'), page.npos) << page;
}

bool has_line(const std::string& text, const std::string& wanted) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line == wanted) return true;
  }
  return false;
}

TEST(Metrics, AreInBaseUnitsWithEscapedLabels) {
  const std::string text = metrics_text(figures(10, 100, {}));
  const std::string at = "{mountpoint=\"/srv/\\\"a\\\\\"}";
  EXPECT_TRUE(has_line(text, "lazyfs_data_appended_bytes_total" + at + " 4096000")) << text;
  EXPECT_TRUE(has_line(text, "lazyfs_dirty_bytes" + at + " 4096")) << text;
  EXPECT_TRUE(has_line(text, "lazyfs_uptime_seconds" + at + " 10")) << text;
}

TEST(Metrics, NameTheVolumeAndItsState) {
  MountFigures mount = figures(10, 100, {});
  mount.mount_point = "/two\nlines";
  const std::string text = metrics_text(mount);
  const std::string at = "{mountpoint=\"/two\\nlines\",";
  EXPECT_TRUE(has_line(text, "lazyfs_info" + at +
                                 "device=\"/dev/sdb\",label=\"archive\",uuid=\"u-u\","
                                 "options=\"rw\"} 1"))
      << text;
  EXPECT_TRUE(has_line(text, "lazyfs_state" + at + "state=\"writable\"} 1")) << text;
  EXPECT_TRUE(has_line(text, "lazyfs_state" + at + "state=\"read-only\"} 0")) << text;
}

TEST(Metrics, AreUtf8) {
  MountFigures mount = figures(10, 100, {});
  mount.mount_point = "/a\xFF\xC3\xA4";
  const std::string text = metrics_text(mount);
  const std::string at = "{mountpoint=\"/a\xEF\xBF\xBD\xC3\xA4\"}";
  EXPECT_TRUE(has_line(text, "lazyfs_uptime_seconds" + at + " 10")) << text;
}

TEST(Progress, SaysWhatIsKnown) {
  const std::uint64_t mib = std::uint64_t{1} << 20;
  EXPECT_EQ(progress_text({"inodes", 0, 0}, 0), "inodes     0");
  EXPECT_EQ(progress_text({"inodes", 1200, 0}, 2), "inodes     1200, 600/s");
  EXPECT_EQ(progress_text({"inodes", 1200, 3000}, 2),
            "inodes     40%, 1200 of 3000, 600/s, 3 s left");
  EXPECT_EQ(progress_text({"scrub", 512 * mib, 1024 * mib, Unit::kBytes}, 4),
            "scrub      50%, 512 MiB of 1 GiB, 128 MiB/s, 4 s left");
  // More was done than was estimated.
  EXPECT_EQ(progress_text({"gc", 20, 10}, 1), "gc         100%, 20 of 10, 20/s, 0 s left");
  const auto json = Json::parse(progress_json({"scrub", mib, 4 * mib, Unit::kBytes}, 1));
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["percent"].number(), 25u);
  EXPECT_EQ((*json)["seconds_left"].real(), 3.0);
  EXPECT_FALSE(Json::parse(progress_json({"nodes", 1, 0}, 1))->contains("percent"));
}

TEST(Metrics, HaveHelpAndTypeOnceAndTogether) {
  std::istringstream lines(metrics_text(figures(10, 100, {1000})));
  std::set<std::string> described;
  std::string now;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, what, name;
    words >> hash >> what >> name;
    if (hash != "#") {
      EXPECT_EQ(line.compare(0, now.size(), now), 0) << line;
    } else if (what == "HELP") {
      EXPECT_TRUE(described.insert(name).second) << line;
      now = name;
    } else {
      EXPECT_EQ(what, "TYPE");
      EXPECT_EQ(name, now);
    }
  }
  EXPECT_EQ(described.size(), 15u);
}

TEST(Metrics, HaveCumulativeHistograms) {
  const std::string text = metrics_text(figures(10, 100, {4095, 20'000, 2'000'000}));
  const std::string at = "{mountpoint=\"/srv/\\\"a\\\\\",operation=\"read\"";
  const std::string bucket = "lazyfs_request_duration_seconds_bucket" + at + ",le=\"";
  EXPECT_TRUE(has_line(text, bucket + "4.096e-06\"} 1")) << text;
  EXPECT_TRUE(has_line(text, bucket + "6.5536e-05\"} 2")) << text;
  EXPECT_TRUE(has_line(text, bucket + "+Inf\"} 3")) << text;
  EXPECT_TRUE(has_line(text, "lazyfs_request_duration_seconds_count" + at + "} 3")) << text;
}

TEST(Metrics, HaveSumsInSeconds) {
  MountFigures mount = figures(10, 100, {500'000'000, 1'500'000'000});
  mount.stats["data"]["stall_times"] = times_of({3'000'000'000});
  const std::string text = metrics_text(mount);
  const std::string at = "{mountpoint=\"/srv/\\\"a\\\\\"";
  EXPECT_TRUE(has_line(text, "lazyfs_request_duration_seconds_sum" + at +
                                 ",operation=\"read\"} 2"))
      << text;
  EXPECT_TRUE(has_line(text, "lazyfs_writer_stall_seconds_sum" + at + "} 3")) << text;
}

TEST(Metrics, LeaveOutWhatAnOlderDaemonDoesNotHave) {
  MountFigures mount = figures(10, 100, {});
  mount.stats = Json::object({{"state", "writable"}});
  const std::string text = metrics_text(mount);
  EXPECT_EQ(text.find("lazyfs_dirty_bytes"), text.npos);
  EXPECT_NE(text.find("lazyfs_state"), text.npos);
}

TEST(StatsPage, IsInWordsWithin80Columns) {
  const std::string page = stats_page(figures(3 * 3600 + 125, 100, {1000, 2000}));
  EXPECT_NE(page.find("writable, up 3 h 2 min"), page.npos) << page;
  EXPECT_NE(page.find("3.906 MiB appended for users"), page.npos) << page;
  EXPECT_NE(page.find("1.10 since the mount, 1.05 since mkfs"), page.npos) << page;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(StatsPage, ShowsAnOlderDaemonsFigures) {
  MountFigures mount = figures(10, 100, {});
  mount.stats = Json::object({{"state", "writable"}});
  EXPECT_NE(stats_page(mount).find("writable"), std::string::npos);
}

TEST(TopPage, ShowsWhatHappenedBetweenTwoLooks) {
  const auto page =
      top_page(figures(10, 100, {1000}), figures(12, 612, {1000, 3000, 5000, 7000, 9000}), {});
  const auto line = [&](const std::string& start) {
    const auto found = std::ranges::find_if(
        page, [&](const std::string& text) { return text.starts_with(start); });
    return found == page.end() ? "" : *found;
  };
  EXPECT_NE(line("Collector").find("1 MiB/s moved"), std::string::npos) << line("Collector");
  EXPECT_NE(line("read").find("2.0        6 us"), std::string::npos) << line("read");
  EXPECT_NE(line("Space").find("[###############---            ]"), std::string::npos)
      << line("Space");
}

TEST(TopPage, ShowsTheStateBesideLongNames) {
  MountFigures now = figures(12, 0, {1});
  now.device = std::string(200, 'd');
  EXPECT_EQ(top_page(figures(10, 0, {1}), now, {.columns = 80}).front().find("writable, up "), 0u);
}

TEST(TopPage, StaysWithinTheTerminal) {
  const auto page =
      top_page(figures(10, 0, {1}), figures(12, 0, {1, 2}), {.columns = 40, .lines = 9});
  EXPECT_EQ(page.size(), 9u);
  for (const std::string& line : page) EXPECT_LE(line.size(), 40u) << line;
}

TEST(Words, SayTimesAndDurations) {
  EXPECT_EQ(time_text(999), "999 ns");
  EXPECT_EQ(time_text(12'345), "12.3 us");
  EXPECT_EQ(time_text(999'499), "999 us");
  EXPECT_EQ(time_text(999'999), "1 ms");
  EXPECT_EQ(time_text(1'500'000'000), "1.5 s");
  EXPECT_EQ(time_text(1'234'000'000'000), "1234 s");
  EXPECT_EQ(duration_text(59.9), "59 s");
  EXPECT_EQ(duration_text(125), "2 min 5 s");
  EXPECT_EQ(duration_text(86'400 + 3600), "1 day 1 h");
  EXPECT_EQ(rate_text(0, 0), "0 B/s");
  EXPECT_EQ(rate_text(5, 0), "0 B/s");
  EXPECT_EQ(rate_text(1000, 1), "1000 B/s");
  EXPECT_EQ(rate_text(1 << 20, 2), "512 KiB/s");
  EXPECT_EQ(count_text(1, "band"), "1 band");
}

}  // namespace
}  // namespace lazyfs
