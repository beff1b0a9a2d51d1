#include "profiler/recorder.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace lazyfs::profiler {

namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

CpuTime process_cpu_time() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return {seconds_of(used.ru_utime), seconds_of(used.ru_stime)};
}

Recorder::Recorder(Descriptor file, Format format, bool is_classic, Counts& counts, Clock& clock,
                   CpuClock cpu_clock)
    : file_(std::move(file)),
      format_(format),
      is_classic_(is_classic),
      counts_(counts),
      clock_(clock),
      cpu_clock_(std::move(cpu_clock)),
      begin_(clock.monotonic()),
      cpu_at_begin_(cpu_clock_()) {}

bool Recorder::end_section(const std::string& reason) {
  const auto end = clock_.monotonic();
  const CpuTime cpu = cpu_clock_();
  const Section section{
      .number = next_number_++,
      .reason = reason,
      .is_classic = is_classic_,
      .end = clock_.now(),
      .seconds = std::chrono::duration<double>(end - begin_).count(),
      .cpu = {cpu.user - cpu_at_begin_.user, cpu.system - cpu_at_begin_.system},
      .totals = counts_.take()};
  begin_ = end;
  cpu_at_begin_ = cpu;
  const std::string text =
      format_ == Format::kJson ? to_json(section).dump() + "\n" : to_text(section);
  return ::write(file_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace lazyfs::profiler
