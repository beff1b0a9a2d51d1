#include "fuse/requests/context.h"

#include <nlohmann/json.hpp>

#include "base/log.h"

namespace lazyfs::fuse {

std::string stats_json(const RequestContext& context) {
  auto stats = nlohmann::ordered_json::parse(context.volume.stats_json(), nullptr, false);
  if (!stats.is_object()) {
    log::error("fuse: the volume's statistics are not a JSON object");
    stats = nlohmann::ordered_json::object();
  }
  auto& operations = stats["operations"] = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < kOperationCount; ++i) {
    const auto operation = static_cast<Operation>(i);
    operations[std::string(name_of(operation))] = context.counts.of(operation);
  }
  stats["transport"] = nlohmann::ordered_json::parse(context.transport_json(), nullptr, false);
  return stats.dump();
}

}  // namespace lazyfs::fuse
