// lazyfsctl metrics.
#pragma once

#include <string>

#include "tools/metrics.h"

namespace lazyfs {

// Asks the daemon of a mount. Throws std::runtime_error, as MountPoint.
MountFigures figures_of(const std::string& mount_point);

// With an empty `folder`, prints the figures of a mount for Prometheus. Otherwise replaces the file
// lazyfs-UUID.prom in `folder` atomically. Throws std::runtime_error.
void metrics_command(const std::string& mount_point, const std::string& folder);

}  // namespace lazyfs
