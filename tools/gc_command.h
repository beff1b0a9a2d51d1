// lazyfsctl gc.
#pragma once

#include <string>

namespace lazyfs {

struct GcPlan {
  std::string mount_point;
  unsigned dead_percent = 20;
  bool only_estimate = false;
  std::string progress = "auto";  // of kProgressForms
  bool json = false;
};

// Cleans bands, shows progress, and prints what was done. Throws
// std::runtime_error("what: why").
void gc_command(const GcPlan& plan);

}  // namespace lazyfs
