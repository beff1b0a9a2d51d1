#include "tools/edistats_picture.h"

#include <gtest/gtest.h>

#include "tools/edistats_page.h"

namespace lazyfs::tools {
namespace {

std::size_t count(const std::string& text, std::string_view what) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
  return found;
}

fs::BandReport report_of(std::vector<fs::BandLine> lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    lines[i].band = BandId{static_cast<std::uint32_t>(i)};
  }
  return {std::move(lines), {}};
}

constexpr std::string_view kPointerBar = "height=\"2\" fill=\"#111111\"";  // one more in the legend

std::string drawn(const fs::BandReport& report) { return svg_of({"/dev/sdb", "today"}, report); }

TEST(PictureTest, EachBandHasABarThatSaysItsNumbers) {
  const auto svg = drawn(report_of({{.state = data::BandState::kSuper, .blocks = 100},
                                     {.state = data::BandState::kFull,
                                      .blocks = 100,
                                      .write_pointer = 100,
                                      .live = 70,
                                      .dead = 30}}));
  EXPECT_EQ(count(svg, "class=\"band\""), 2u);
  EXPECT_EQ(count(svg, "Band 1 (used): 70 live, 30 dead of 100 blocks, write pointer at 100"), 1u);
}

TEST(PictureTest, WritePointerIsDrawnWhereABandIsPartlyWritten) {
  const fs::BandLine free{.state = data::BandState::kFree, .blocks = 100};
  fs::BandLine open{
      .state = data::BandState::kOpen, .blocks = 100, .write_pointer = 50, .live = 50};
  EXPECT_EQ(count(drawn(report_of({free})), kPointerBar), 1u);
  EXPECT_EQ(count(drawn(report_of({free, open})), kPointerBar), 2u);
  open.write_pointer = open.live = 100;
  EXPECT_EQ(count(drawn(report_of({free, open})), kPointerBar), 1u);
}

TEST(PictureTest, BandsThatAreSetAsideDifferFromOfflineOnes) {
  const fs::BandLine offline{.state = data::BandState::kBad, .blocks = 100};
  fs::BandLine set_aside = offline;
  set_aside.is_set_aside = true;
  const auto svg = drawn(report_of({offline, set_aside}));
  EXPECT_EQ(count(svg, "Band 0 (offline)"), 1u);
  EXPECT_EQ(count(svg, "Band 1 (set aside)"), 1u);
}

TEST(PictureTest, ManyBandsStayOnePage) {
  const auto height_of = [](std::size_t bands) {
    const auto svg = drawn(report_of(std::vector<fs::BandLine>(bands, {.blocks = 10})));
    return std::stoi(svg.substr(svg.find("height=\"") + 8));
  };
  EXPECT_LT(height_of(1024), 2000);
  EXPECT_LT(height_of(4096), 2000);
  EXPECT_LT(height_of(40'000), 2000);
}

TEST(PictureTest, SeveralOfManyBandsShareABar) {
  std::vector<fs::BandLine> lines(
      4001, {.state = data::BandState::kFull, .blocks = 256, .write_pointer = 256, .live = 256});
  lines[1] = {.state = data::BandState::kFree, .blocks = 256};
  const auto svg = drawn(report_of(lines));
  EXPECT_EQ(count(svg, "class=\"band\""), 1334u);
  EXPECT_EQ(count(svg, "Bands 0 to 2 (1 free, 2 used): 2 MiB live, 0 dead of 3 MiB"), 1u);
  EXPECT_EQ(count(svg, "Bands 3999 to 4000 (2 used)"), 1u);
  EXPECT_EQ(count(svg, "Each bar is 3 bands of up to 3 MiB"), 1u);
  lines.resize(2000);
  EXPECT_EQ(count(drawn(report_of(lines)), "class=\"band\""), 2000u);
}

TEST(PictureTest, SaysWhatItShows) {
  auto report = report_of({{.state = data::BandState::kFree, .blocks = 256}});
  report.totals = {.live = 512, .dead = 256, .free = 1024, .free_bands = 1};
  const auto svg = drawn(report);
  EXPECT_EQ(count(svg, "Bands of /dev/sdb, today"), 1u);
  EXPECT_EQ(count(svg, "2 MiB live, 1 MiB dead, 4 MiB free (1 free bands)"), 1u);
  EXPECT_EQ(count(svg, "space overhead 1.50, write amplification 1.00"), 1u);
  EXPECT_EQ(count(svg, "Each bar is one band of up to 1 MiB, each row up to 64 MiB"), 1u);
  EXPECT_EQ(count(svg, "prefers-color-scheme:dark"), 1u);
}

TEST(PictureTest, EachBarNamesItsBands) {
  const auto report = report_of(std::vector<fs::BandLine>(4001, {.blocks = 10}));
  EXPECT_EQ(count(drawn(report), "data-bands=\"3999-4000\""), 1u);
  EXPECT_EQ(count(drawn(report_of({{.blocks = 10}})), "data-bands=\"0-0\""), 1u);
}

TEST(PageTest, ShowsNamesAsTheyAre) {
  const auto page = html_of({"<a>&\"b\"", "today"}, "x < y", report_of({{.blocks = 1}}), {});
  EXPECT_EQ(count(page, "<a>"), 0u);
  EXPECT_GE(count(page, "&lt;a&gt;&amp;&quot;b&quot;"), 1u);
  EXPECT_EQ(count(page, "x &lt; y"), 1u);
}

TEST(PageTest, HasTheHistoriesThatAreKnown) {
  BandDetails details;
  details.histories[BandId{1}] = {{{InodeNo{7}, 2, 0, 4, 1}, {InodeNo{8}, 0, 4, 1, 1}}, {{3, 2}}};
  details.paths[InodeNo{7}] = "/</script>\"";
  const auto page = html_of({"d", "t"}, "", report_of({{.blocks = 9}, {.blocks = 9}}), details);
  EXPECT_EQ(count(page, R"("1":{"appends":[[0,4,1,0,2],[4,1,1,1,0]],"dead":[[3,2]]})"), 1u);
  EXPECT_EQ(count(page, R"("unreadable":{})"), 1u);
  EXPECT_EQ(count(page, R"("names":[[7,"/\u003c/script>\""],[8,null]])"), 1u);
}

TEST(PageTest, SaysWhichBandsCannotBeRead) {
  BandDetails details;
  details.unreadable[BandId{1}] = Errc::kItemBad;
  const auto page = html_of({"d", "t"}, "", report_of({{.blocks = 9}, {.blocks = 9}}), details);
  EXPECT_EQ(count(page, R"("unreadable":{"1":")" + std::string(describe(Errc::kItemBad)) + "\"}"),
            1u);
}

}  // namespace
}  // namespace lazyfs::tools
