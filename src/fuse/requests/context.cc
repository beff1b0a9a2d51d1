#include "fuse/requests/context.h"

#include <utility>

#include "base/log.h"
#include "base/time_histogram_json.h"

namespace lazyfs::fuse {

std::string stats_json(const RequestContext& context) {
  auto stats = Json::parse(context.volume.stats_json());
  if (!stats || !stats->is_object()) {
    log::error("fuse: the volume's statistics are not a JSON object");
    stats = Json::object();
  }
  Json operations = Json::object(), times = Json::object();
  for (const Operation operation : kOperations) {
    const TimeHistogram& of_kind = context.counts.of(operation);
    const std::uint64_t count = of_kind.count();
    operations[name_of(operation)] = count;
    if (count > 0) times[name_of(operation)] = to_json(of_kind);
  }
  const auto uptime = std::chrono::steady_clock::now() - context.started;
  (*stats)["uptime_seconds"] = std::chrono::duration<double>(uptime).count();
  (*stats)["operations"] = std::move(operations);
  (*stats)["operation_times"] = std::move(times);
  (*stats)["files"] = Json::object({{"bytes_read", context.counts.bytes_read()},
                                    {"bytes_written", context.counts.bytes_written()},
                                    {"late_errors", context.counts.late_errors()}});
  (*stats)["transport"] = context.transport_json();
  return stats->dump();
}

}  // namespace lazyfs::fuse
