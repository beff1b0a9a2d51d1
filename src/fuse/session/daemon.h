// Runs a program that mounts a volume and serves it: background, log, errors, unmount.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fs/volume/volume.h"
#include "fuse/session/options.h"

namespace lazyfs::fuse {

struct DaemonPlan {
  std::string program;  // for messages: "PROGRAM: what: why"
  Options options;
  std::string source;       // device or image
  std::string mount_point;  // as the user typed it
  bool foreground = false;
  std::vector<std::string> option_lists{};  // as they followed -o, for a restart
};

// Opens the device and mounts the volume on it, in the process that will serve it. The pointer
// holds the volume together with its device; the last reference closes both. Error: "what: why".
using OpenVolume =
    std::function<std::expected<std::shared_ptr<fs::Volume>, std::string>(const DaemonPlan&)>;

// Returns the exit status: of the waiting parent once the mount is usable (0) or has failed, of the
// daemon itself after the unmount. REQUIRES: the process has no other thread yet.
int run_daemon(DaemonPlan plan, const OpenVolume& open_volume);

inline constexpr int kFailed = 1;
// Reports "PROGRAM: WHAT" and returns kFailed.
int complain(const DaemonPlan& plan, const std::string& what);
// Returns the absolute path, which is valid after chdir. The name of a missing file stays as it is.
std::string absolute(const std::string& path);

}  // namespace lazyfs::fuse
