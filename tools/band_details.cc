#include "tools/band_details.h"

#include <set>
#include <utility>

#include "fs/space/block_owners.h"

namespace lazyfs::tools {

BandDetails band_details_of(meta::Store& store, const std::vector<BandId>& bands) {
  BandDetails details;
  std::set<InodeNo> inodes;
  for (const BandId band : bands) {
    auto history = fs::history_of(store, band);
    if (!history) {
      details.unreadable[band] = history.error();
      continue;
    }
    for (const fs::BandAppend& append : history->appends) inodes.insert(append.inode);
    details.histories[band] = std::move(*history);
  }
  if (inodes.empty()) return details;
  auto paths = fs::paths_of(store, inodes);
  if (paths) {
    details.paths = std::move(*paths);
  } else {
    details.paths_error = paths.error();
  }
  return details;
}

}  // namespace lazyfs::tools
