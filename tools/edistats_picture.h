// Draws the bands of a filesystem: a bar for each, coloured by what the band holds.
#pragma once

#include <string>
#include <string_view>

#include "fs/space/band_report.h"

namespace lazyfs::tools {

struct PictureTitle {
  std::string device, date;
};

// Of more than 2,000 bands several share a bar. Light or dark, as the viewer prefers. Each bar is
// an element of class `band` whose attribute `data-bands` has its first and last band ("16-19").
std::string svg_of(const PictureTitle& title, const fs::BandReport& report);

// The text for the inside of an HTML or SVG element.
std::string markup_of(std::string_view text);

}  // namespace lazyfs::tools
