// What edistats' page shows of bands besides the report, from the bands' logs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "fs/space/band_history.h"
#include "meta/store/store.h"

namespace lazyfs::tools {

struct BandDetails {
  std::map<BandId, fs::BandHistory> histories;  // of some bands, or of all
  std::map<BandId, Errc> unreadable;            // why a band has none
  std::map<InodeNo, std::string> paths;         // of the histories' files that have a name
  std::optional<Errc> paths_error;              // why no file has a path

  bool is_complete() const { return unreadable.empty() && !paths_error; }
};

// Damage to one band's log, or to directories, leaves the rest readable. REQUIRES: the store does
// not change meanwhile.
BandDetails band_details_of(meta::Store& store, const std::vector<BandId>& bands);

}  // namespace lazyfs::tools
