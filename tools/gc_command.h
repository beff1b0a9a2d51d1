// lazyfsctl gc.
#pragma once

#include <string>

namespace lazyfs {

struct GcPlan {
  std::string mount_point;
  unsigned dead_percent = 20;
  bool only_estimate = false, json = false;
};

// Cleans bands, shows progress on a terminal, and prints what was done. Throws
// std::runtime_error("what: why").
void gc_command(const GcPlan& plan);

}  // namespace lazyfs
