// What smrsim prints: reports of runs, their comparison, and the list of models, as JSON.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "base/json.h"
#include "sim/replay.h"

namespace lazyfs {

Json describe_result(const sim::ReplayResult& result);

// All models with their parameters and the origin of each.
Json describe_models();

// Compares reports, normalised to the first one. The error names the file that is no report.
std::expected<Json, std::string> compare_reports(const std::vector<std::string>& paths);

}  // namespace lazyfs
