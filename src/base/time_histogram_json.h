// A histogram of times as JSON, apart from it because libedi does without JSON.
#pragma once

#include "base/json.h"
#include "base/time_histogram.h"

namespace lazyfs {

// count, sum_ns, p50_ns, p99_ns, max_ns, and below_ns: how many times were less than 2^12, 2^14,
// ... 2^34 ns. The keys are INTERFACE: docs/stats.md.
Json to_json(const TimeHistogram& times);

}  // namespace lazyfs
