// Converts a histogram of times to JSON. It has its own header because libedi does not use JSON.
#pragma once

#include "base/json.h"
#include "base/time_histogram.h"

namespace lazyfs {

// count, sum_ns, p50_ns, p99_ns, max_ns, and below_ns: how many times were less than 2^12, 2^14,
// ... 2^34 ns. The keys are INTERFACE: docs/stats.md.
Json to_json(const TimeHistogram& times);

}  // namespace lazyfs
