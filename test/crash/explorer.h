// Tries what power cuts during a workload may leave, and judges each state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "crash/landmarks.h"
#include "crash/trace.h"
#include "device/memory.h"

namespace lazyfs::crash {

struct ExploreOptions {
  std::uint64_t seed = 1;
  // Of the states that a power cut at one moment may leave, so many at random, beside those in
  // which everything was kept, everything unflushed was lost, everything but a write pointer was.
  std::uint32_t choices = 4;
  // How many power cuts may hit the mounts that recover from power cuts, one behind the other, ...
  std::uint32_t relapses = 0;
  // ... in one of so many states.
  std::uint32_t relapse_every = 8;
  std::uint32_t use_every = 4;  // the recovered volume is used on in one of so many states
  std::uint64_t max_states = ~std::uint64_t{0};
};

struct Failure {
  std::string where;                  // the moment and the state, in words
  std::vector<std::string> problems;  // what is wrong with it
};
std::string to_string(const Failure& failure);

struct Explored {
  std::uint64_t states = 0;    // different ones that were judged, ...
  std::uint64_t relapsed = 0;  // ... of these, left by a power cut during recovery
  std::uint64_t used = 0;      // ... of these, used on
  Landmarks landmarks;         // of the workload
  std::optional<Failure> failure;  // the first one; nothing is tried behind it
};

// Ops, of which those before `first` are what was there, and what may be found after so many.
struct History {
  const device::Recording& recording;
  std::size_t first = 0;
  std::function<std::vector<std::string>(std::size_t op_count, const Observation& found)>
      differences;
};
Explored explore(const History& history, const ExploreOptions& options);
Explored explore(const Trace& trace, const ExploreOptions& options);

// The same for a workload; when it fails, operations are left out of it as long as it still fails.
struct Verdict {
  Explored explored;
  Workload minimal;  // of a failure
};
Verdict explore(const Image& image, const Workload& workload, const RunOptions& run,
                const ExploreOptions& options);
std::string to_string(const Verdict& verdict, const ExploreOptions& options);

}  // namespace lazyfs::crash
