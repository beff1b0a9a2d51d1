// Draws the bands of a filesystem: a bar for each, coloured by what the band holds.
#pragma once

#include <string>

#include "fs/space/band_report.h"

namespace lazyfs::tools {

std::string svg_of(const fs::BandReport& report);
// A page with the picture and `text`, the report.
std::string html_of(const std::string& device, const std::string& text,
                    const fs::BandReport& report);

}  // namespace lazyfs::tools
