// Writes the sections of a profile to a file.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/clock.h"
#include "profiler/counts.h"
#include "profiler/descriptor.h"
#include "profiler/report.h"

namespace lazyfs::profiler {

// Not thread-safe.
class Recorder {
 public:
  enum class Format { kText, kJson };  // kJson: one object a line
  using CpuClock = std::function<CpuTime()>;  // CPU time of the process since it began

  // `file`: open for appending. The first section begins now.
  Recorder(Descriptor file, Format format, bool is_classic, Counts& counts, Clock& clock,
           CpuClock cpu_clock);

  // Ends the section: writes what was counted since the last call, with one write, and begins the
  // next section at 0. Returns false when the file did not take all of it.
  [[nodiscard]] bool end_section(const std::string& reason);

 private:
  const Descriptor file_;
  const Format format_;
  const bool is_classic_;
  Counts& counts_;
  Clock& clock_;
  const CpuClock cpu_clock_;
  unsigned next_number_ = 1;
  std::chrono::nanoseconds begin_;
  CpuTime cpu_at_begin_;
};

// What getrusage(2) says of this process.
CpuTime process_cpu_time();

}  // namespace lazyfs::profiler
