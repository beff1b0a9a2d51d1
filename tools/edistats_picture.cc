#include "tools/edistats_picture.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace lazyfs::tools {
namespace {

using data::BandState;

// Where everything is, in pixels. Many bands get narrow bars, so that a large disk is still a page.
struct Layout {
  int columns = 64, bar_width = 13, bar_height = 60, gap = 3;
  int rows = 0;

  static constexpr int kMargin = 16, kNumbers = 44, kHead = 44, kStateHeight = 5, kRowGap = 14;

  explicit Layout(std::size_t bands) {
    if (bands > 1024) columns = 128, bar_width = 7, bar_height = 36, gap = 1;
    rows = static_cast<int>((bands + static_cast<std::size_t>(columns) - 1) /
                            static_cast<std::size_t>(columns));
  }
  int width() const { return 2 * kMargin + kNumbers + columns * (bar_width + gap); }
  int row_height() const { return bar_height + kStateHeight + kRowGap; }
  int height() const { return 2 * kMargin + kHead + rows * row_height(); }
  int x(std::size_t band) const {
    return kMargin + kNumbers + static_cast<int>(band) % columns * (bar_width + gap);
  }
  int y(std::size_t band) const {
    return kMargin + kHead + static_cast<int>(band) / columns * row_height();
  }
};

struct Colour {
  std::string_view meaning, value;
};
constexpr Colour kLive{"live", "#2a6fbb"}, kDead{"dead", "#e39a4f"}, kUnwritten{"", "#eceff2"};
constexpr Colour kLogLive{"live, log", "#3f8f4f"}, kLogDead{"dead, log", "#b5d8b0"};
constexpr Colour kPointer{"write pointer", "#111111"};

// The strip below a bar.
Colour state_colour(const fs::BandLine& line) {
  if (line.is_conventional && !line.is_set_aside) return {"conventional", "#16a2a2"};
  switch (line.state) {
    case BandState::kFull: return {"used", "#5b7fa6"};
    case BandState::kFree: return {"free", "#d3d8dd"};
    case BandState::kOpen: return {"open", "#f2c200"};
    case BandState::kLog: return {"log", "#2f7d3f"};
    case BandState::kSuper: return {"super", "#7d5ba6"};
    case BandState::kBad:
      return line.is_set_aside ? Colour{"set aside", "#b3261e"} : Colour{"offline", "#333333"};
    case BandState::kResetting:
    case BandState::kCutting: break;  // only while mounted
  }
  return kUnwritten;
}

std::string rectangle(int x, int y, int width, int height, std::string_view colour) {
  if (height <= 0) return "";
  return "<rect x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" width=\"" +
         std::to_string(width) + "\" height=\"" + std::to_string(height) + "\" fill=\"" +
         std::string(colour) + "\"/>";
}

std::string label(int x, int y, const std::string& text, std::string_view more = "") {
  return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\"" +
         std::string(more) + ">" + text + "</text>\n";
}

std::string numbers_of(const fs::BandLine& line) {
  return "Band " + std::to_string(line.band.value) + " (" + std::string(name_of(line)) +
         "): " + std::to_string(line.live) + " live, " + std::to_string(line.dead) + " dead of " +
         std::to_string(line.blocks) + " blocks, write pointer at " +
         std::to_string(line.write_pointer);
}

// From the bottom up: live, dead, unwritten; a line where the write pointer is; a strip below that
// has the colour of the state. The tooltip has the numbers.
std::string bar(const Layout& layout, const fs::BandLine& line, std::size_t index) {
  const int x = layout.x(index), y = layout.y(index), tall = layout.bar_height;
  const auto height_of = [&](std::uint64_t blocks) {
    const auto most = static_cast<double>(std::max<std::uint64_t>(line.blocks, 1));
    return static_cast<int>(std::lround(static_cast<double>(blocks) * tall / most));
  };
  const bool is_log = line.state == BandState::kLog;
  const std::string_view strip = state_colour(line).value;
  const int live = std::min(height_of(line.live), tall);
  const int dead = std::min(height_of(line.live + line.dead), tall) - live;
  const int pointer = std::min(height_of(line.write_pointer), tall);

  std::string svg = "<g class=\"band\"><title>" + numbers_of(line) + "</title>";
  svg += rectangle(x, y, layout.bar_width, tall, kUnwritten.value);
  if (line.state == BandState::kSuper || line.state == BandState::kBad) {
    svg += rectangle(x, y + tall - pointer, layout.bar_width, pointer, strip);
  } else {
    svg += rectangle(x, y + tall - live, layout.bar_width, live,
                     is_log ? kLogLive.value : kLive.value);
    svg += rectangle(x, y + tall - live - dead, layout.bar_width, dead,
                     is_log ? kLogDead.value : kDead.value);
  }
  if (line.write_pointer > 0 && line.write_pointer < line.blocks) {
    svg += rectangle(x - 1, y + tall - pointer - 1, layout.bar_width + 2, 2, kPointer.value);
  }
  svg += rectangle(x, y + tall + 1, layout.bar_width, Layout::kStateHeight - 1, strip);
  return svg + "</g>\n";
}

std::string legend() {
  std::string svg;
  int x = Layout::kMargin;
  const int y = Layout::kMargin;
  const auto entry = [&](const Colour& colour, int tall) {
    svg += rectangle(x, y + (12 - tall) / 2, 12, tall, colour.value);
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

std::string escape(std::string_view text) {
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

constexpr std::string_view kStyle =
    "body{font-family:sans-serif;margin:1em;color:#222}"
    "#hover{position:sticky;top:0;background:#fff;padding:.5em 16px;min-height:1.3em;"
    "border-bottom:1px solid #ccc;font-size:14px}"
    ".band:hover rect{filter:brightness(.85)}"
    "#map{overflow-x:auto}pre{font-size:12px;margin-left:16px}";

// The numbers of the band under the pointer, at once and in one place.
constexpr std::string_view kScript =
    "const hover=document.getElementById('hover'),rest=hover.textContent;"
    "for(const band of document.querySelectorAll('.band')){"
    "band.addEventListener('mouseenter',()=>{"
    "hover.textContent=band.querySelector('title').textContent});"
    "band.addEventListener('mouseleave',()=>{hover.textContent=rest})}";

}  // namespace

std::string svg_of(const fs::BandReport& report) {
  const Layout layout(report.bands.size());
  const std::string width = std::to_string(std::max(layout.width(), 1100));
  const std::string height = std::to_string(layout.height());
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" +
                    height + "\" viewBox=\"0 0 " + width + " " + height +
                    "\" font-family=\"sans-serif\" font-size=\"11\">\n" +
                    "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>" + legend();
  for (std::size_t i = 0; i < report.bands.size(); ++i) {
    if (i % static_cast<std::size_t>(layout.columns) == 0) {
      svg += label(Layout::kMargin + Layout::kNumbers - 8, layout.y(i) + layout.bar_height,
                   std::to_string(report.bands[i].band.value),
                   " text-anchor=\"end\" fill=\"#666666\"");
    }
    svg += bar(layout, report.bands[i], i);
  }
  return svg + "</svg>\n";
}

std::string html_of(const std::string& device, const std::string& text,
                    const fs::BandReport& report) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>edistats " +
         escape(device) + "</title><style>" + std::string(kStyle) + "</style></head>\n<body>\n" +
         "<div id=\"hover\">" + escape(device) +
         ": point at a band to see its numbers</div>\n<div id=\"map\">" + svg_of(report) +
         "</div>\n<pre>\n" + escape(text) + "</pre>\n<script>" + std::string(kScript) +
         "</script>\n</body>\n</html>\n";
}

}  // namespace lazyfs::tools
