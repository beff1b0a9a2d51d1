// What `smrsim run` does: a load or traces on a volume of simulated disks.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "base/json.h"
#include "sim/replay.h"

namespace lazyfs {

struct SimulationRequest {
  std::string disk;  // MODEL or MODELxN
  std::vector<std::string> traces;
  std::string load;     // instead of traces
  std::string journal;  // FIRST-LAST, sectors; or empty
  std::uint64_t stripe_sectors = 128;
  std::uint64_t chunk_sectors = 0;
  std::uint64_t permute_seed = 1;
  bool is_stupid = false;
  std::uint64_t stupid_seed = 1;
  std::uint64_t window = 1;
  bool is_paced = false;
  std::string queue;  // fcfs, sstf, clook, or empty: the drive's own
  std::uint64_t every = 0;
  bool with_series = false;
  std::uint64_t points = 0;  // requests to list in the report, about
  bool shows_progress = false;
};

struct SimulationOutcome {
  Json report;
  std::vector<double> read_ms;  // of each read, when the traces have measured theirs
};

// The error says what is wrong with the request or with a trace, which it names by file and line.
std::expected<SimulationOutcome, std::string> simulate(const SimulationRequest& request);

}  // namespace lazyfs
