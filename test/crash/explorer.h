// Explores the states that power cuts during a workload may leave, and verifies each of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "crash/op_counts.h"
#include "crash/trace.h"
#include "device/memory.h"

namespace lazyfs::crash {

struct ExploreOptions {
  std::uint64_t seed = 1;
  // The number of random states to try after a power cut at one moment. The explorer also tries the
  // states in which everything was kept, everything unflushed was lost, everything unflushed except
  // the first write pointer was lost, one change was lost (two such states), and each band has lost
  // a tail (two).
  std::uint32_t choices = 4;
  // The maximum number of successive power cuts during recovery.
  std::uint32_t recovery_cuts = 0;
  std::uint32_t recovery_cut_every = 8;  // recovery is cut in one of this many states
  std::uint32_t use_every = 4;           // the volume is used further in one of this many states
  std::uint64_t max_states = ~std::uint64_t{0};
};

struct Failure {
  std::string where;                  // the moment and the state, as text
  std::vector<std::string> problems;  // found in that state
};
std::string to_string(const Failure& failure);

struct Explored {
  std::uint64_t states = 0;           // number of different states verified
  std::uint64_t cut_in_recovery = 0;  // of these: left by a power cut during recovery
  std::uint64_t used = 0;             // of these: used further
  OpCounts op_counts;                 // of the workload
  std::optional<Failure> failure;     // the first failure; exploring stops there
};

// Recorded ops. The ops before `first` are the initial contents. `differences` returns the problems
// of an observation after a power cut that followed `op_count` ops.
struct History {
  const device::Recording& recording;
  std::size_t first = 0;
  std::function<std::vector<std::string>(std::size_t op_count, const Observation& found)>
      differences;
};
Explored explore(const History& history, const ExploreOptions& options);
Explored explore(const Trace& trace, const ExploreOptions& options);

// Runs a workload and explores its trace. After a failure, removes operations from the workload as
// long as it still fails.
struct Outcome {
  Explored explored;
  Workload minimal;  // the shortened workload after a failure
};
Outcome explore(const Image& image, const Workload& workload, const RunOptions& run,
                const ExploreOptions& options);
std::string to_string(const Outcome& outcome, const ExploreOptions& options);

}  // namespace lazyfs::crash
