// A section of a profile: what was counted from one dump to the next, as text and as JSON.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/json.h"
#include "profiler/counts.h"

namespace lazyfs::profiler {

// CPU time of the daemon, seconds.
struct CpuTime {
  double user = 0, system = 0;
};

struct Section {
  unsigned number = 1;  // from 1, in the order of the dumps
  std::string reason;   // what caused the dump
  bool is_classic = false;
  Timestamp end;
  double seconds = 0;  // since the previous section, or since the mount
  CpuTime cpu;         // used in these seconds
  Totals totals;
};

// Lists the calls that were made, most frequent first, calls of equal frequency by name.
// `profiler plot` reads both forms.
std::string to_text(const Section& section);
Json to_json(const Section& section);

}  // namespace lazyfs::profiler
