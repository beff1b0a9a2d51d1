// The figures of a mount in the text format of Prometheus, version 0.0.4.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace lazyfs {

struct MountFigures {
  std::string mount_point, device;
  Json stats;  // as the daemon answers: docs/stats.md
  Json info;   // fs::to_json(VolumeInfo)
};

// A member's text; empty if the daemon, which may be older, does not have it.
std::string text_in(const Json& object, std::string_view name);

// Each metric with HELP and TYPE, in base units, with the label `mountpoint`. A figure that the
// daemon does not have, because it is older, is left out. The names are INTERFACE: docs/stats.md.
std::string metrics_text(const MountFigures& mount);

}  // namespace lazyfs
