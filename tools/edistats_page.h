// The page of edistats: the picture, and for each band that is clicked its files and its history.
#pragma once

#include <string>

#include "fs/space/band_report.h"
#include "tools/band_details.h"
#include "tools/edistats_picture.h"

namespace lazyfs::tools {

// A page that needs no other file. `text`: the report. The page's fragment #band-17 shows a band,
// and #bands-16-19 lists several.
std::string html_of(const PictureTitle& title, const std::string& text,
                    const fs::BandReport& report, const BandDetails& details);

}  // namespace lazyfs::tools
