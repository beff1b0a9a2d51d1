// The options of a mount, and their changes by remounts.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "fs/volume/volume.h"
#include "fuse/session/options.h"

namespace lazyfs::fuse {

// Thread-safe.
class OptionsInForce {
 public:
  explicit OptionsInForce(Options at_mount) : options_(std::move(at_mount)) {}

  // Changes the options of `volume`, and the log's level. Flags that mount(2) changes are ignored.
  // Error: a sentence that names an option which is wrong or cannot be changed; all options remain
  // as they were.
  std::expected<SyncChoice, std::string> change(fs::Volume& volume, std::string_view list)
      EXCLUDES(mu_);

 private:
  Mutex mu_;  // held over the volume's change
  Options options_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::fuse
