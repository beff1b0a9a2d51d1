#include "fuse/requests/context.h"

#include <utility>

#include "base/log.h"

namespace lazyfs::fuse {

std::string stats_json(const RequestContext& context) {
  auto stats = Json::parse(context.volume.stats_json());
  if (!stats || !stats->is_object()) {
    log::error("fuse: the volume's statistics are not a JSON object");
    stats = Json::object();
  }
  Json operations = Json::object();
  for (const Operation operation : kOperations) {
    operations[name_of(operation)] = context.counts.of(operation);
  }
  (*stats)["operations"] = std::move(operations);
  (*stats)["transport"] = context.transport_json();
  return stats->dump();
}

}  // namespace lazyfs::fuse
