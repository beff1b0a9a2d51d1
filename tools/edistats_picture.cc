#include "tools/edistats_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/size.h"

namespace lazyfs::tools {
namespace {

using data::BandState;

// More bands than this share bars, so that the picture of any disk has at most so many.
constexpr std::size_t kMaxBars = 2000;

// The layout of the picture, in pixels. With many bars each is narrow, so that a large disk still
// fits on a page.
struct Layout {
  int columns = 64, bar_width = 13, bar_height = 60, gap = 3;
  int rows = 0;

  static constexpr int kMargin = 16, kNumbers = 64, kTitle = 62;
  static constexpr int kHead = kTitle + 32, kStateHeight = 5, kRowGap = 14;

  explicit Layout(std::size_t bars) {
    if (bars > 1024) columns = 128, bar_width = 7, bar_height = 36, gap = 1;
    rows = static_cast<int>((bars + static_cast<std::size_t>(columns) - 1) /
                            static_cast<std::size_t>(columns));
  }
  int width() const { return 2 * kMargin + kNumbers + columns * (bar_width + gap); }
  int row_height() const { return bar_height + kStateHeight + kRowGap; }
  int height() const { return 2 * kMargin + kHead + rows * row_height(); }
  int x(std::size_t bar) const {
    return kMargin + kNumbers + static_cast<int>(bar) % columns * (bar_width + gap);
  }
  int y(std::size_t bar) const {
    return kMargin + kHead + static_cast<int>(bar) / columns * row_height();
  }
};

// `style`: its class in kSvgStyle, if it differs on a dark page.
struct Colour {
  std::string_view meaning, value, style;
};
constexpr Colour kLive{"live", "#2a6fbb", ""}, kDead{"dead", "#e39a4f", ""};
constexpr Colour kUnwritten{"", "#eceff2", "none"};
constexpr Colour kLogLive{"live, log", "#3f8f4f", ""}, kLogDead{"dead, log", "#b5d8b0", ""};
constexpr Colour kPointer{"write pointer", "#111111", "mark"};

// The strip below a bar.
Colour state_colour(const fs::BandLine& line) {
  if (line.is_conventional && !line.is_set_aside) return {"conventional", "#16a2a2", ""};
  switch (line.state) {
    case BandState::kFull: return {"used", "#5b7fa6", ""};
    case BandState::kFree: return {"free", "#d3d8dd", "free"};
    case BandState::kOpen: return {"open", "#f2c200", ""};
    case BandState::kLog: return {"log", "#2f7d3f", ""};
    case BandState::kSuper: return {"super", "#7d5ba6", ""};
    case BandState::kBad:
      return line.is_set_aside ? Colour{"set aside", "#b3261e", ""}
                               : Colour{"offline", "#333333", "mark"};
    case BandState::kResetting:
    case BandState::kCutting: break;  // only while mounted
  }
  return kUnwritten;
}

std::string rectangle(int x, int y, int width, int height, const Colour& colour) {
  if (height <= 0) return "";
  const std::string style =
      colour.style.empty() ? "" : " class=\"" + std::string(colour.style) + "\"";
  return "<rect" + style + " x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) +
         "\" width=\"" + std::to_string(width) + "\" height=\"" + std::to_string(height) +
         "\" fill=\"" + std::string(colour.value) + "\"/>";
}

std::string label(int x, int y, const std::string& text, std::string_view more = "") {
  return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\"" +
         std::string(more) + ">" + text + "</text>\n";
}

// What a bar shows: one band, or several that follow one another.
struct Bar {
  const fs::BandLine* only = nullptr;  // the band; null: of several bands
  std::uint32_t first = 0, last = 0;   // their numbers
  std::uint64_t blocks = 0, live = 0, dead = 0, log_live = 0, log_dead = 0;
  std::uint64_t filled = 0;  // superblocks, and bands that cannot be used: in the strip's colour
  Colour strip = kUnwritten;
  std::string states;  // "3 used, 1 free"
};

void add(Bar& bar, const fs::BandLine& line) {
  bar.blocks += line.blocks;
  if (line.state == BandState::kSuper || line.state == BandState::kBad) {
    bar.filled += line.write_pointer;
  } else if (line.state == BandState::kLog) {
    bar.log_live += line.live;
    bar.log_dead += line.dead;
  } else {
    bar.live += line.live;
    bar.dead += line.dead;
  }
}

// Gives the bar the colour of the state that most of its bands have, and the count of each.
void name_states(Bar& bar, std::span<const fs::BandLine> lines) {
  std::map<std::string, std::size_t> counts;
  for (const fs::BandLine& line : lines) ++counts[name_of(line)];
  std::size_t most = 0;
  for (const fs::BandLine& line : lines) {
    if (counts[name_of(line)] <= most) continue;
    most = counts[name_of(line)];
    bar.strip = state_colour(line);
  }
  for (const auto& [name, count] : counts) {
    bar.states += (bar.states.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  }
}

std::size_t bands_a_bar(std::size_t bands) {
  return std::max<std::size_t>(1, (bands + kMaxBars - 1) / kMaxBars);
}

std::vector<Bar> bars_of(const std::vector<fs::BandLine>& lines) {
  const std::size_t at_once = bands_a_bar(lines.size());
  std::vector<Bar> bars;
  for (std::size_t i = 0; i < lines.size(); i += at_once) {
    const auto part = std::span(lines).subspan(i, std::min(at_once, lines.size() - i));
    Bar bar{.only = part.size() == 1 ? &part.front() : nullptr,
            .first = part.front().band.value,
            .last = part.back().band.value};
    for (const fs::BandLine& line : part) add(bar, line);
    name_states(bar, part);
    bars.push_back(std::move(bar));
  }
  return bars;
}

std::string numbers_of(const Bar& bar) {
  if (!bar.only) {
    return "Bands " + std::to_string(bar.first) + " to " + std::to_string(bar.last) + " (" +
           bar.states + "): " + size_text((bar.live + bar.log_live) * kBlockBytes) + " live, " +
           size_text((bar.dead + bar.log_dead) * kBlockBytes) + " dead of " +
           size_text(bar.blocks * kBlockBytes);
  }
  const fs::BandLine& line = *bar.only;
  return "Band " + std::to_string(line.band.value) + " (" + std::string(name_of(line)) +
         "): " + std::to_string(line.live) + " live, " + std::to_string(line.dead) + " dead of " +
         std::to_string(line.blocks) + " blocks, write pointer at " +
         std::to_string(line.write_pointer);
}

// From the bottom up: live, dead, unwritten; a line where the write pointer of a single band is; a
// strip below that has the colour of the state. The tooltip has the numbers.
std::string draw(const Layout& layout, const Bar& bar, std::size_t index) {
  const int x = layout.x(index), y = layout.y(index), tall = layout.bar_height;
  const auto height_of = [&](std::uint64_t blocks) {
    const auto most = static_cast<double>(std::max<std::uint64_t>(bar.blocks, 1));
    return static_cast<int>(std::lround(static_cast<double>(blocks) * tall / most));
  };
  std::string svg = "<g class=\"band\" data-bands=\"" + std::to_string(bar.first) + "-" +
                    std::to_string(bar.last) + "\"><title>" + numbers_of(bar) + "</title>";
  svg += rectangle(x, y, layout.bar_width, tall, kUnwritten);
  std::uint64_t below = 0;
  int bottom = 0;
  for (const auto& [blocks, colour] :
       {std::pair(bar.filled, bar.strip), std::pair(bar.live, kLive),
        std::pair(bar.log_live, kLogLive), std::pair(bar.dead, kDead),
        std::pair(bar.log_dead, kLogDead)}) {
    below += blocks;
    const int top = std::min(height_of(below), tall);
    svg += rectangle(x, y + tall - top, layout.bar_width, top - bottom, colour);
    bottom = top;
  }
  if (bar.only && bar.only->write_pointer > 0 && bar.only->write_pointer < bar.only->blocks) {
    const int pointer = std::min(height_of(bar.only->write_pointer), tall);
    svg += rectangle(x - 1, y + tall - pointer - 1, layout.bar_width + 2, 2, kPointer);
  }
  svg += rectangle(x, y + tall + 1, layout.bar_width, Layout::kStateHeight - 1, bar.strip);
  return svg + "</g>\n";
}

// What, when, and the totals of file data.
std::string title_of(const PictureTitle& title, const fs::BandReport& report) {
  const fs::BandTotals& totals = report.totals;
  const auto size = [](std::uint64_t blocks) { return size_text(blocks * kBlockBytes); };
  std::array<char, 80> ratios{};
  std::snprintf(ratios.data(), ratios.size(), "space overhead %.2f, write amplification %.2f",
                totals.overhead(), totals.write_amplification());
  const int x = Layout::kMargin, y = Layout::kMargin;
  const std::string what = "Bands of " + markup_of(title.device) + ", " + markup_of(title.date);
  std::string svg = label(x, y + 12, what,
                          " font-size=\"16\" font-weight=\"bold\"");
  svg += label(x, y + 32,
               std::to_string(report.bands.size()) + " bands. File data: " + size(totals.live) +
                   " live, " + size(totals.dead) + " dead, " + size(totals.free) + " free (" +
                   std::to_string(totals.free_bands) + " free bands); " + ratios.data() +
                   ". Metadata log: " + std::to_string(totals.log_bands) + " bands");
  return svg;
}

// The text that explains a bar, a row, and the height of a bar.
std::string scale_of(const Layout& layout, const fs::BandReport& report) {
  if (report.bands.empty()) return "";
  std::uint64_t most = 0;
  for (const fs::BandLine& line : report.bands) most = std::max(most, line.blocks);
  const std::size_t at_once = bands_a_bar(report.bands.size());
  const std::string bands = at_once == 1 ? "one band" : std::to_string(at_once) + " bands";
  const std::uint64_t bytes = at_once * most * kBlockBytes;
  const auto columns = static_cast<unsigned>(layout.columns);
  std::string svg =
      label(Layout::kMargin, Layout::kMargin + 50,
            "Each bar is " + bands + " of up to " + size_text(bytes) + ", each row up to " +
                size_text(columns * bytes) + "; the number at a row is that of its first band");
  const int x = layout.x(0) - 4;
  svg += label(x, layout.y(0) + 9, "100 %", " text-anchor=\"end\" class=\"faint\"");
  svg += rectangle(x + 1, layout.y(0), 2, layout.bar_height, kPointer);
  return svg;
}

std::string legend() {
  std::string svg;
  int x = Layout::kMargin;
  const int y = Layout::kMargin + Layout::kTitle;
  const auto entry = [&](const Colour& colour, int tall) {
    svg += rectangle(x, y + (12 - tall) / 2, 12, tall, colour);
    svg += label(x + 17, y + 10, std::string(colour.meaning));
    x += 30 + 7 * static_cast<int>(colour.meaning.size());
  };
  for (const Colour& colour : {kLive, kDead, kLogLive, kLogDead}) entry(colour, 12);
  entry(kPointer, 2);
  svg += label(x, y + 10, "strip:");
  x += 40;
  const fs::BandLine conventional{.state = BandState::kOpen, .is_conventional = true};
  for (const fs::BandLine& line :
       {fs::BandLine{.state = BandState::kFull}, fs::BandLine{.state = BandState::kOpen},
        fs::BandLine{.state = BandState::kFree}, fs::BandLine{.state = BandState::kLog},
        fs::BandLine{.state = BandState::kSuper}, conventional,
        fs::BandLine{.state = BandState::kBad},
        fs::BandLine{.state = BandState::kBad, .is_set_aside = true}}) {
    entry(state_colour(line), Layout::kStateHeight);
  }
  return svg;
}

// Colours for light and for dark pages.
constexpr std::string_view kSvgStyle =
    "<style>.faint{fill:#666}"
    "@media (prefers-color-scheme:dark){.paper{fill:#16181b}text{fill:#dddddd}.faint{fill:#999}"
    ".none{fill:#2b2f34}.free{fill:#4a5058}.mark{fill:#f2f2f2}}</style>";

}  // namespace

std::string markup_of(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '&': safe += "&amp;"; break;
      case '"': safe += "&quot;"; break;
      default: safe += c;
    }
  }
  return safe;
}

std::string svg_of(const PictureTitle& title, const fs::BandReport& report) {
  const std::vector<Bar> bars = bars_of(report.bands);
  const Layout layout(bars.size());
  const std::string width = std::to_string(std::max(layout.width(), 1100));
  const std::string height = std::to_string(layout.height());
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" +
                    height + "\" viewBox=\"0 0 " + width + " " + height +
                    "\" font-family=\"sans-serif\" font-size=\"11\">\n" +
                    std::string(kSvgStyle) +
                    "<rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>" +
                    title_of(title, report) + legend() + scale_of(layout, report);
  for (std::size_t i = 0; i < bars.size(); ++i) {
    if (i % static_cast<std::size_t>(layout.columns) == 0) {
      svg += label(Layout::kMargin + Layout::kNumbers - 8, layout.y(i) + layout.bar_height,
                   std::to_string(bars[i].first), " text-anchor=\"end\" class=\"faint\"");
    }
    svg += draw(layout, bars[i], i);
  }
  return svg + "</svg>\n";
}

}  // namespace lazyfs::tools
