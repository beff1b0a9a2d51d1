// The page of edistats: the picture, and for each band that is clicked its files and its history.
#pragma once

#include <map>
#include <string>

#include "base/types.h"
#include "fs/space/band_history.h"
#include "fs/space/band_report.h"
#include "tools/edistats_picture.h"

namespace lazyfs::tools {

// What the page knows of bands besides the report.
struct BandDetails {
  std::map<BandId, fs::BandHistory> histories;  // of some bands, or of all
  std::map<InodeNo, std::string> paths;         // of their files that have a name
};

// A page that needs no other file. `text`: the report. The page's fragment #band-17 shows a band,
// and #bands-16-19 lists several.
std::string html_of(const PictureTitle& title, const std::string& text,
                    const fs::BandReport& report, const BandDetails& details);

}  // namespace lazyfs::tools
