#include "zoned/queue.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/log.h"

namespace lazyfs::zoned {
namespace {

constexpr std::string_view kScheduler = "mq-deadline";
constexpr std::pair kOrdersBySelf{6u, 10u};  // the first kernel that needs no scheduler

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::uint64_t number_of(const std::string& path) {
  const std::string line = line_of(path);
  std::uint64_t number = 0;
  std::from_chars(line.data(), line.data() + line.size(), number);
  return number;
}

std::pair<unsigned, unsigned> version_of(std::string_view release) {
  unsigned major = 0, minor = 0;
  const char* const end = release.data() + release.size();
  const auto [dot, error] = std::from_chars(release.data(), end, major);
  if (error == std::errc{} && dot != end && *dot == '.') std::from_chars(dot + 1, end, minor);
  return {major, minor};
}

}  // namespace

std::string queue_folder(unsigned major, unsigned minor) {
  return fmt::format("/sys/dev/block/{}:{}/queue", major, minor);
}

DiskLimits read_limits(const std::string& queue) {
  DiskLimits limits;
  limits.max_open_zones = static_cast<std::uint32_t>(number_of(queue + "/max_open_zones"));
  limits.max_active_zones = static_cast<std::uint32_t>(number_of(queue + "/max_active_zones"));
  limits.max_write_bytes = number_of(queue + "/max_sectors_kb") * 1024;
  // Each page of memory may be a segment of its own.
  const std::uint64_t by_segments = number_of(queue + "/max_segments") * kBlockBytes;
  const bool is_less = limits.max_write_bytes == 0 || by_segments < limits.max_write_bytes;
  if (by_segments > 0 && is_less) limits.max_write_bytes = by_segments;
  const std::uint64_t granularity = std::max(number_of(queue + "/zone_write_granularity"),
                                             number_of(queue + "/logical_block_size"));
  if (granularity > 0) limits.write_bytes = static_cast<std::uint32_t>(granularity);
  return limits;
}

SchedulerNeed scheduler_need(std::string_view schedulers, std::string_view release) {
  const std::string chosen = "[" + std::string(kScheduler) + "]";
  const bool is_old = version_of(release) < kOrdersBySelf;
  return {.must_change = is_old && !schedulers.empty() && !schedulers.contains(chosen),
          .is_offered = schedulers.contains(kScheduler)};
}

void prepare_scheduler(const std::string& queue, const std::string& device) {
  utsname kernel{};
  if (uname(&kernel) != 0) return;
  const std::string path = queue + "/scheduler";
  const SchedulerNeed need = scheduler_need(line_of(path), kernel.release);
  if (!need.must_change) return;
  std::ofstream file(path);
  file << kScheduler << std::flush;
  if (file.good()) {
    log::info("{}: its scheduler is mq-deadline now, which keeps the order of writes to a zone",
              device);
  } else {
    log::warn("{}: Linux {} keeps the order of writes to a zone only with the scheduler "
              "mq-deadline{}; as root: echo mq-deadline > {}",
              device, kernel.release,
              need.is_offered ? "" : ", which must be loaded first (modprobe mq-deadline)", path);
  }
}

}  // namespace lazyfs::zoned
