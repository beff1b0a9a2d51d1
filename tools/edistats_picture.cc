#include "tools/edistats_picture.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace lazyfs::tools {
namespace {

constexpr std::size_t kBandsInARow = 64;
constexpr int kBarWidth = 12, kBarHeight = 60, kGap = 3, kMargin = 16, kLegend = 28;

struct Colour {
  std::string_view meaning, value;
};
constexpr Colour kLive{"live", "#2a6fbb"}, kDead{"dead", "#d9822b"}, kFree{"free", "#e8e8e8"},
    kLog{"log", "#4d9a5b"}, kSuper{"super", "#7d5ba6"}, kOffline{"offline", "#444444"};

std::string_view colour_of_live(fs::BandState state) {
  switch (state) {
    case fs::BandState::kLog: return kLog.value;
    case fs::BandState::kSuper: return kSuper.value;
    case fs::BandState::kOffline: return kOffline.value;
    case fs::BandState::kUsed:
    case fs::BandState::kFree:
    case fs::BandState::kOpen:
    case fs::BandState::kConventional: return kLive.value;
  }
  return kLive.value;
}

std::string rectangle(int x, int y, int width, int height, std::string_view colour,
                      const std::string& inside = "") {
  return "<rect x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" width=\"" +
         std::to_string(width) + "\" height=\"" + std::to_string(height) + "\" fill=\"" +
         std::string(colour) + "\">" + inside + "</rect>\n";
}

// From the bottom up: live, dead, free; the tooltip has the numbers.
std::string bar(const fs::BandLine& line, int x, int y) {
  const auto height_of = [&](std::uint64_t blocks) {
    return static_cast<int>(std::lround(static_cast<double>(blocks) * kBarHeight /
                                        static_cast<double>(line.blocks)));
  };
  const bool all = line.state == fs::BandState::kOffline || line.state == fs::BandState::kSuper;
  const int live = all ? kBarHeight : height_of(line.live);
  const int dead = all ? 0 : std::min(height_of(line.dead), kBarHeight - live);
  const std::string title = "<title>Band " + std::to_string(line.band.value) + " (" +
                            std::string(name_of(line.state)) + "): " + std::to_string(line.live) +
                            " live, " + std::to_string(line.dead) + " dead of " +
                            std::to_string(line.blocks) + " blocks</title>";
  return rectangle(x, y, kBarWidth, kBarHeight, kFree.value, title) +
         rectangle(x, y + kBarHeight - live, kBarWidth, live, colour_of_live(line.state), title) +
         rectangle(x, y + kBarHeight - live - dead, kBarWidth, dead, kDead.value, title);
}

std::string legend(int y) {
  std::string svg;
  int x = kMargin;
  for (const Colour& colour : {kLive, kDead, kFree, kLog, kSuper, kOffline}) {
    svg += rectangle(x, y, kBarWidth, kBarWidth, colour.value) + "<text x=\"" +
           std::to_string(x + kBarWidth + 5) + "\" y=\"" + std::to_string(y + 10) + "\">" +
           std::string(colour.meaning) + "</text>\n";
    x += 90;
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

}  // namespace

std::string svg_of(const fs::BandReport& report) {
  constexpr std::size_t columns = kBandsInARow;
  const auto rows = static_cast<int>((report.bands.size() + columns - 1) / columns);
  const int width = 2 * kMargin + static_cast<int>(columns) * (kBarWidth + kGap);
  const int height = 2 * kMargin + kLegend + rows * (kBarHeight + kMargin);
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + std::to_string(width) +
                    "\" height=\"" + std::to_string(height) +
                    "\" font-family=\"sans-serif\" font-size=\"11\">\n" +
                    rectangle(0, 0, width, height, "#ffffff") + legend(kMargin);
  for (std::size_t i = 0; i < report.bands.size(); ++i) {
    svg += bar(report.bands[i], kMargin + static_cast<int>(i % columns) * (kBarWidth + kGap),
               kMargin + kLegend + static_cast<int>(i / columns) * (kBarHeight + kMargin));
  }
  return svg + "</svg>\n";
}

std::string html_of(const std::string& device, const std::string& text,
                    const fs::BandReport& report) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>edistats " +
         escape(device) + "</title></head>\n<body>\n" + svg_of(report) + "<pre>\n" + escape(text) +
         "</pre>\n</body>\n</html>\n";
}

}  // namespace lazyfs::tools
