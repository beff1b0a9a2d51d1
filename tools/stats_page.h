// What lazyfsctl stats prints for people.
#pragma once

#include <string>

#include "tools/metrics.h"

namespace lazyfs {

// At most 80 columns, but for paths and options.
std::string stats_page(const MountFigures& mount);

}  // namespace lazyfs
