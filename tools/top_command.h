// lazyfsctl top.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tools/metrics.h"

namespace lazyfs {

// One page of `top`: what has happened between two looks at a mount, in lines of at most `columns`.
// `by_time` sorts the requests by the time that they took, else by their number.
struct TopView {
  unsigned columns = 80, lines = 24;
  bool by_time = false;
};
std::vector<std::string> top_page(const MountFigures& before, const MountFigures& now,
                                  const TopView& view);

// Shows the mount until the user ends it; without a terminal it prints one page after `interval`.
// Keys: q ends, space looks at once, + and - change the interval, t and n sort the requests.
// Throws std::runtime_error("what: why").
void top_command(const std::string& mount_point, std::chrono::milliseconds interval);

}  // namespace lazyfs
