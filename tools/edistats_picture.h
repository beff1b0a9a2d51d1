// Draws the bands of a filesystem: a bar for each, coloured by what the band holds.
#pragma once

#include <string>

#include "fs/space/band_report.h"

namespace lazyfs::tools {

struct PictureTitle {
  std::string device, date;
};

// Of more than 2,000 bands several share a bar. Light or dark, as the viewer prefers.
std::string svg_of(const PictureTitle& title, const fs::BandReport& report);
// A page with the picture and `text`, the report.
std::string html_of(const PictureTitle& title, const std::string& text,
                    const fs::BandReport& report);

}  // namespace lazyfs::tools
