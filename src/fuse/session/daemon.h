// A program that mounts a volume and serves it: into the background, log, errors, the end.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "fs/volume/volume.h"
#include "fuse/session/options.h"

namespace lazyfs::fuse {

struct DaemonPlan {
  std::string program;  // for messages: "PROGRAM: what: why"
  Options options;
  std::string source;       // device or image
  std::string mount_point;  // as the user typed it
  bool foreground = false;
};

// Opens the device and mounts the volume on it, in the process that will serve it. What is shared
// is the volume together with its device; the last reference closes both. Error: "what: why".
using OpenVolume =
    std::function<std::expected<std::shared_ptr<fs::Volume>, std::string>(const DaemonPlan&)>;

// Returns the exit status: of the waiting parent once the mount is usable (0) or has failed, of the
// daemon itself after the unmount. Call it before any thread is made.
int run_daemon(DaemonPlan plan, const OpenVolume& open_volume);

// Answers `mount -o remount` for a mounted volume: rw to ro and flags; not ro to rw. Exit status.
int remount(const DaemonPlan& plan);

}  // namespace lazyfs::fuse
