// lazyfsctl metrics.
#pragma once

#include <string>

#include "tools/metrics.h"

namespace lazyfs {

// Asks the daemon of a mount. Throws std::runtime_error, as MountPoint.
MountFigures figures_of(const std::string& mount_point);

// Prints the figures of a mount for Prometheus or, with `folder`, replaces the file
// lazyfs-UUID.prom there by them at once; "" prints. Throws std::runtime_error.
void metrics_command(const std::string& mount_point, const std::string& folder);

}  // namespace lazyfs
